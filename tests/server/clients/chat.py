"""OpenAI's client: chats, completions, models."""

import json

import openai

from common import *


@case
def openai_chat_plain():
    answer = chat()
    choice = answer.choices[0]
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion" and answer.model == MODEL
    assert choice.message.role == "assistant" and choice.message.content and choice.finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert 0 < answer.usage.completion_tokens <= 16


@case
def openai_chat_stream_is_the_same_text():
    whole = chat()
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content, text
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({c.id for c in chunks}) == 1


@case
def openai_chat_max_tokens():
    for name in ("max_tokens", "max_completion_tokens"):
        answer = chat(**{"max_tokens": openai.NOT_GIVEN, name: 3})
        assert answer.usage.completion_tokens == 3 and answer.choices[0].finish_reason == "length", name


@case
def openai_chat_n():
    answer = chat(n=3, seed=1, **WILD, extra_body=WIDE)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    assert len({c.message.content for c in answer.choices}) > 1
    streamed = ["", "", ""]
    for chunk in chat(n=3, seed=1, stream=True, **WILD, extra_body=WIDE):
        streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert streamed == [c.message.content for c in answer.choices]


@case
def openai_chat_seed():
    texts = [chat(seed=seed, **WILD, extra_body=WIDE).choices[0].message.content for seed in (5, 5, 6, 7)]
    assert texts[0] == texts[1] and len(set(texts)) > 1, texts
    # OpenAI's are 64 bits wide.
    assert chat(seed=2**63 - 1).choices[0].message.content


@case
def openai_chat_stop():
    whole = chat(max_tokens=40).choices[0].message.content
    mark = whole[3:6]
    for stop in (mark, [mark, "never said"]):
        answer = chat(max_tokens=40, stop=stop).choices[0]
        assert answer.message.content == whole.split(mark)[0] and answer.finish_reason == "stop"


@case
def openai_chat_logprobs():
    answer = chat(logprobs=True, top_logprobs=3, max_tokens=4)
    content = answer.choices[0].logprobs.content
    assert len(content) == 4 and "".join(t.token for t in content) == answer.choices[0].message.content
    for token in content:
        assert len(token.top_logprobs) == 3 and token.logprob <= 0 and bytes(token.bytes).decode() == token.token
        # Greedy: the token is the likeliest.
        assert token.top_logprobs[0].token == token.token and token.top_logprobs[0].logprob == token.logprob
    assert chat().choices[0].logprobs is None


@case
def openai_chat_logit_bias():
    first = chat(logprobs=True, top_logprobs=0, max_tokens=1).choices[0].logprobs.content[0]
    token = first.model_extra["id"]
    answer = chat(logit_bias={str(token): -100}, max_tokens=1, logprobs=True)
    assert answer.choices[0].logprobs.content[0].token != first.token


@case
def openai_chat_json_schema():
    form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA, "strict": True}}
    assert fits(json.loads(chat(response_format=form, max_tokens=200).choices[0].message.content))
    text = "".join(c.choices[0].delta.content or "" for c in chat(response_format=form, max_tokens=200, stream=True))
    assert fits(json.loads(text))


@case
def openai_chat_parse():
    import pydantic

    class Trip(pydantic.BaseModel):
        sunny: bool

    answer = oai.chat.completions.parse(model=MODEL, messages=HELLO, response_format=Trip, max_tokens=100, temperature=0)
    assert isinstance(answer.choices[0].message.parsed, Trip)


@case
def openai_chat_tools_required():
    tools = [{"type": "function", "function": WEATHER}]
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ("required", named):
        answer = chat(tools=tools, tool_choice=choice, max_tokens=200, parallel_tool_calls=False).choices[0]
        assert answer.finish_reason == "tool_calls", answer
        [call] = answer.message.tool_calls
        assert call.id and call.type == "function" and call.function.name == "get_weather"
        assert fits(json.loads(call.function.arguments)), call


@case
def openai_chat_tools_named_of_two():
    tools = [{"type": "function", "function": tool} for tool in (WEATHER, TIME)]
    answer = chat(tools=tools, tool_choice={"type": "function", "function": {"name": "get_time"}}, max_tokens=200)
    assert {call.function.name for call in answer.choices[0].message.tool_calls} == {"get_time"}


@case
def openai_chat_tools_stream():
    tools = [{"type": "function", "function": WEATHER}]
    names, arguments, reasons = [], "", []
    for chunk in chat(tools=tools, tool_choice="required", max_tokens=200, stream=True, parallel_tool_calls=False):
        for call in chunk.choices[0].delta.tool_calls or []:
            names += [call.function.name] if call.function.name else []
            arguments += call.function.arguments or ""
        reasons += [chunk.choices[0].finish_reason] if chunk.choices[0].finish_reason else []
    assert names == ["get_weather"] and fits(json.loads(arguments)) and reasons == ["tool_calls"], (names, arguments, reasons)


@case
def openai_chat_tools_none():
    answer = chat(tools=[{"type": "function", "function": WEATHER}], tool_choice="none").choices[0]
    assert not answer.message.tool_calls and answer.message.content


@case
def openai_chat_with_results():
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome", "days": 1}'}}
    turns = HELLO + [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    with_result = chat(messages=turns, tools=[{"type": "function", "function": WEATHER}], tool_choice="none")
    assert with_result.usage.prompt_tokens > chat().usage.prompt_tokens and with_result.choices[0].message.content


@case
def openai_chat_with_a_refusal():
    said = lambda part: HELLO + [{"role": "assistant", "content": [part]}] + HELLO
    parts = {"type": "refusal", "refusal": "No."}, {"type": "text", "text": "No."}
    refused, plain = (chat(messages=said(part)).usage.prompt_tokens for part in parts)
    assert refused == plain > chat().usage.prompt_tokens


@case
def openai_chat_cached_tokens():
    turns = [{"role": "system", "content": "Be brief. " * 40}] + HELLO
    chat(messages=turns)
    usage = chat(messages=turns).usage
    assert 0 < usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens


@case
def openai_completions():
    # However soon the model would end.
    whole = {"max_tokens": 4, "temperature": 0, "extra_body": {"ignore_eos": True}}
    answer = oai.completions.create(model=MODEL, prompt=["2 + 3 =", "Hello"], logprobs=2, **whole)
    assert [c.index for c in answer.choices] == [0, 1] and answer.object == "text_completion"
    assert all(len(c.logprobs.tokens) == 4 and len(c.logprobs.top_logprobs[0]) == 2 for c in answer.choices)
    stream = oai.completions.create(model=MODEL, prompt="2 + 3 =", stream=True, **whole)
    assert "".join(c.choices[0].text for c in stream) == answer.choices[0].text


@case
def openai_completions_format():
    form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA}}
    for more in ({"response_format": form}, {"json_schema": SCHEMA}):
        answer = oai.completions.create(model=MODEL, prompt="A trip:", max_tokens=200, temperature=0, extra_body=more)
        assert fits(json.loads(answer.choices[0].text)), more


@case
def openai_models():
    models = oai.models.list().data
    assert len(models) == 1 and oai.models.retrieve(models[0].id).id == models[0].id
    refused(openai.NotFoundError, lambda: oai.models.retrieve("none-such"))


@case
def openai_errors():
    for fields, part in [
        ({"messages": []}, "messages"),
        ({"temperature": "hot"}, "temperature"),
        ({"n": 0}, "n:"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}, "image_url"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "hiccup"}}}}, "hiccup"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "hiccup"}}}]}, "tools"),
        ({"functions": [WEATHER]}, "functions"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"extra_body": {"mirostat": 2}}, "mirostat"),
    ]:
        error = refused(openai.BadRequestError, lambda: chat(**fields), part)
        assert error.type == "invalid_request_error", error
    long = refused(openai.BadRequestError, lambda: chat(messages=[{"role": "user", "content": "word " * 40_000}]))
    assert long.code == "context_length_exceeded", long
    assert chat(extra_body={"nobody_knows": 1}).choices[0].message.content
