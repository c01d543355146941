"""The official clients against a running server: python clients.py URL [part of a case's name].

Needs the packages openai, anthropic and ollama. Ends with "N passed, N failed", and 1 if anything failed.
"""

import json
import sys
import traceback

import anthropic
import ollama
import openai

URL = sys.argv[1].rstrip("/")
ONLY = sys.argv[2] if len(sys.argv) > 2 else ""
MODEL = "demo"

oai = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0, timeout=120)
ant = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0, timeout=120)
oll = ollama.Client(host=URL, timeout=120)

HELLO = [{"role": "user", "content": "Hello!"}]
LETTERS = [{"role": "user", "content": "Count from one to ten."}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "enum": [1, 2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"name": "get_weather", "description": "The weather of a city", "parameters": SCHEMA}
TIME = {"name": "get_time", "description": "The time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}
CASES = []


def case(function):
    CASES.append(function)
    return function


def fits(arguments):
    """Whether a value is what SCHEMA describes."""
    return (
        isinstance(arguments, dict)
        and set(arguments) == {"city", "days"}
        and arguments["city"] in ("Rome", "Oslo")
        and arguments["days"] in (1, 2)
    )


def refused(error, call, *parts):
    """The call raises this error, whose text has these parts."""
    try:
        call()
    except error as caught:
        assert type(caught) is error, f"{type(caught)} instead of {error}"
        for part in parts:
            assert part in str(caught), f"{part!r} is not in {caught}"
        return caught
    raise AssertionError(f"{error.__name__} is not raised")


def chat(**fields):
    return oai.chat.completions.create(**({"model": MODEL, "messages": HELLO, "max_tokens": 16, "temperature": 0} | fields))


def message(temperature=0, **fields):
    # The client of today has no argument for it any more; the field is the server's all the same.
    fields["extra_body"] = {"temperature": temperature} | fields.get("extra_body", {})
    return ant.messages.create(**({"model": MODEL, "messages": HELLO, "max_tokens": 16} | fields))


def response(**fields):
    return oai.responses.create(**({"model": MODEL, "input": "Hello!", "max_output_tokens": 16, "temperature": 0} | fields))


def talk(options=None, **fields):
    options = {"temperature": 0, "num_predict": 16} | (options or {})
    return oll.chat(**({"model": MODEL, "messages": HELLO, "options": options} | fields))


def generate(options=None, **fields):
    options = {"temperature": 0, "num_predict": 16} | (options or {})
    return oll.generate(**({"model": MODEL, "prompt": "Hello!", "options": options} | fields))


# Answers that differ: the demo model is sure of itself.
WILD = {"temperature": 3, "top_p": 1}
WIDE = {"top_k": 0, "min_p": 0}


# OpenAI: chat


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
def openai_chat_cached_tokens():
    turns = [{"role": "system", "content": "Be brief. " * 40}] + HELLO
    chat(messages=turns)
    usage = chat(messages=turns).usage
    assert 0 < usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens


@case
def openai_completions():
    answer = oai.completions.create(model=MODEL, prompt=["2 + 3 =", "Hello"], max_tokens=4, temperature=0, logprobs=2)
    assert [c.index for c in answer.choices] == [0, 1] and answer.object == "text_completion"
    assert all(len(c.logprobs.tokens) == 4 and len(c.logprobs.top_logprobs[0]) == 2 for c in answer.choices)
    stream = oai.completions.create(model=MODEL, prompt="2 + 3 =", max_tokens=4, temperature=0, stream=True)
    assert "".join(c.choices[0].text for c in stream) == answer.choices[0].text


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
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"extra_body": {"mirostat": 2}}, "mirostat"),
    ]:
        error = refused(openai.BadRequestError, lambda: chat(**fields), part)
        assert error.type == "invalid_request_error", error
    long = refused(openai.BadRequestError, lambda: chat(messages=[{"role": "user", "content": "word " * 40_000}]))
    assert long.code == "context_length_exceeded", long
    assert chat(extra_body={"nobody_knows": 1}).choices[0].message.content


# OpenAI: responses


@case
def responses_plain():
    answer = response(instructions="Be brief.", metadata={"a": "b"}, store=False, user="me")
    assert answer.output_text and answer.object == "response" and answer.id.startswith("resp_")
    assert answer.status in ("completed", "incomplete") and answer.instructions == "Be brief." and answer.metadata == {"a": "b"}
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    assert answer.usage.input_tokens > response().usage.input_tokens


@case
def responses_limit():
    answer = response(max_output_tokens=2)
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage.output_tokens == 2


@case
def responses_stream():
    whole = response()
    events = list(response(stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    kinds = [e.type for e in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    ends = ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response." + whole.status]
    assert kinds[-4:] == ends and set(kinds[4:-4]) == {"response.output_text.delta"}, kinds
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text == events[-4].text


@case
def responses_stream_helper():
    with oai.responses.stream(model=MODEL, input="Hello!", temperature=0) as stream:
        final = stream.get_final_response() if list(stream) else None
    assert final.output_text and final.status == "completed"


@case
def responses_items():
    items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "I ask."}]},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Rome", "days": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ]
    longer = response(input=items)
    assert longer.output_text and longer.usage.input_tokens > response(input=items[1:2]).usage.input_tokens


@case
def responses_tools():
    tools = [{"type": "function", **WEATHER, "strict": True}, {"type": "function", **TIME, "strict": True}]
    named = {"type": "function", "name": "get_weather"}
    only = [item for item in response(tools=tools, tool_choice=named, max_output_tokens=200).output]
    assert [item.type for item in only] == ["function_call"] and only[0].name == "get_weather" and only[0].call_id
    assert fits(json.loads(only[0].arguments))
    events = list(response(tools=tools[:1], tool_choice="required", max_output_tokens=200, parallel_tool_calls=False, stream=True))
    text = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    [done] = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert fits(json.loads(text)) and done.arguments == text and done.name == "get_weather"
    assert events[-1].type == "response.completed" and events[-1].response.output[0].arguments == text


@case
def responses_format():
    form = {"format": {"type": "json_schema", "name": "trip", "schema": SCHEMA, "strict": True}}
    assert fits(json.loads(response(text=form, max_output_tokens=200).output_text))


@case
def responses_logprobs():
    answer = response(top_logprobs=2, include=["message.output_text.logprobs"], max_output_tokens=3)
    probs = answer.output[0].content[0].logprobs
    assert len(probs) == 3 and all(len(p.top_logprobs) == 2 for p in probs)
    assert "".join(p.token for p in probs) == answer.output_text


@case
def responses_input_tokens():
    assert oai.responses.input_tokens.count(model=MODEL, input="Hello!").input_tokens == response().usage.input_tokens


@case
def responses_errors():
    picture = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]
    for fields, part in [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": picture}, "input_image"),
        ({"tools": [{"type": "web_search"}]}, "web_search"),
        ({"text": {"format": {"type": "sound"}}}, "text.format.type"),
        ({"input": []}, "input"),
        ({"background": True}, "background"),
    ]:
        refused(openai.BadRequestError, lambda: response(**fields), part)


# Anthropic


@case
def anthropic_plain():
    answer = message(system="Be brief.", metadata={"user_id": "me"})
    assert answer.type == "message" and answer.role == "assistant" and answer.model == MODEL and answer.id.startswith("msg_")
    assert [block.type for block in answer.content] == ["text"] and answer.content[0].text
    assert answer._request_id.startswith("req_")


@case
def anthropic_system_as_blocks():
    blocks = message(system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    text = message(system="Be brief.")
    assert blocks.content[0].text == text.content[0].text


@case
def anthropic_max_tokens():
    answer = message(max_tokens=2)
    assert answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 2
    refused(anthropic.BadRequestError, lambda: ant.post("/v1/messages", body={"messages": HELLO}, cast_to=object), "max_tokens")


@case
def anthropic_stop_sequences():
    whole = message(max_tokens=40).content[0].text
    mark = whole[3:6]
    answer = message(max_tokens=40, stop_sequences=["never said", mark])
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == mark
    assert answer.content[0].text == whole.split(mark)[0]


@case
def anthropic_stream():
    whole = message()
    events = list(message(stream=True))
    kinds = [event.type for event in events]
    assert kinds[0] == "message_start" and kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"], kinds
    assert set(kinds[1:-3]) <= {"ping", "content_block_start", "content_block_delta"}
    assert "".join(e.delta.text for e in events if e.type == "content_block_delta") == whole.content[0].text
    assert events[-2].delta.stop_reason == whole.stop_reason
    with ant.messages.stream(model=MODEL, messages=HELLO, max_tokens=16, extra_body={"temperature": 0}) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        assert stream.get_final_message().usage.output_tokens == whole.usage.output_tokens


@case
def anthropic_sampling():
    free = {"top_k": 0, "min_p": 0, "top_p": 1}
    texts = [message(temperature=3, extra_body=free | {"seed": seed}).content[0].text for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2], texts
    # One likeliest token is left, whatever the temperature.
    assert message(temperature=3, extra_body={"top_k": 1}).content[0].text == message().content[0].text


@case
def anthropic_prefill():
    turns = LETTERS + [{"role": "assistant", "content": "One, two,"}]
    assert message(messages=turns).usage.input_tokens is not None
    count = lambda messages: ant.messages.count_tokens(model=MODEL, messages=messages).input_tokens
    assert count(turns) > count(LETTERS)


def ant_tool(tool):
    return {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}


@case
def anthropic_tools():
    tools = [ant_tool(WEATHER), ant_tool(TIME)]
    choice = {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}
    answer = message(tools=tools, tool_choice=choice, max_tokens=200)
    assert answer.stop_reason == "tool_use", answer
    [call] = answer.content
    assert call.type == "tool_use" and call.id and call.name == "get_weather" and fits(call.input), call
    some = message(tools=tools[:1], tool_choice={"type": "any"}, max_tokens=200)
    # The limit may cut the last of several calls.
    assert all(block.type == "tool_use" for block in some.content) and fits(some.content[0].input)
    none = message(tools=tools, tool_choice={"type": "none"})
    assert [block.type for block in none.content] == ["text"]


@case
def anthropic_tools_stream():
    choice = {"type": "any", "disable_parallel_tool_use": True}
    parts, start = "", None
    for event in message(tools=[ant_tool(WEATHER)], tool_choice=choice, max_tokens=200, stream=True):
        if event.type == "content_block_start":
            start = event.content_block
        if event.type == "content_block_delta":
            parts += event.delta.partial_json
        if event.type == "message_delta":
            assert event.delta.stop_reason == "tool_use"
    assert start.type == "tool_use" and start.input == {} and fits(json.loads(parts)), (start, parts)


@case
def anthropic_results():
    turns = HELLO + [
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I ask.", "signature": ""},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Rome", "days": 1}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sunny"}]},
            {"type": "text", "text": "Well?"},
        ]},
    ]
    answer = message(messages=turns, tools=[ant_tool(WEATHER)], tool_choice={"type": "none"})
    assert answer.content[0].text
    count = lambda messages: ant.messages.count_tokens(model=MODEL, messages=messages, tools=[ant_tool(WEATHER)]).input_tokens
    assert count(turns) > count(HELLO)


@case
def anthropic_count_tokens():
    usage = message(system="Be brief.").usage
    counted = ant.messages.count_tokens(model=MODEL, messages=HELLO, system="Be brief.").input_tokens
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


@case
def anthropic_format():
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert fits(json.loads(message(output_config=form, max_tokens=200).content[0].text))


@case
def anthropic_thinking():
    for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, {"type": "adaptive"}):
        assert message(thinking=thinking).content
    refused(anthropic.BadRequestError, lambda: message(thinking={"type": "perhaps"}), "thinking.type")


@case
def anthropic_errors():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    for fields, part in [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [picture]}]}, "image"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        ({"tool_choice": {"type": "tool", "name": "nobody"}, "tools": [ant_tool(WEATHER)]}, "nobody"),
        ({"tools": [{"name": "x"}]}, "input_schema"),
    ]:
        error = refused(anthropic.BadRequestError, lambda: message(**fields), part)
        assert error.body["type"] == "error" and error.body["error"]["type"] == "invalid_request_error", error.body


# Ollama


@case
def ollama_chat():
    answer = talk()
    assert answer.model == MODEL and answer.done and answer.message.role == "assistant" and answer.message.content
    assert answer.eval_count <= 16 and answer.prompt_eval_count > 0 and answer.total_duration > 0
    lines = list(talk(stream=True))
    assert "".join(line.message.content for line in lines) == answer.message.content
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1].done_reason == answer.done_reason and lines[-1].eval_count == answer.eval_count


@case
def ollama_options():
    short = talk({"num_predict": 2})
    assert short.eval_count == 2 and short.done_reason == "length"
    whole = talk({"num_predict": 40}).message.content
    cut = talk({"num_predict": 40, "stop": [whole[3:6]]})
    assert cut.message.content == whole.split(whole[3:6])[0] and cut.done_reason == "stop"
    texts = [talk({"seed": seed} | WILD | WIDE).message.content for seed in (5, 5, 6, 7)]
    assert texts[0] == texts[1] and len(set(texts)) > 1


@case
def ollama_format():
    assert fits(json.loads(talk({"num_predict": 200}, format=SCHEMA).message.content))
    assert fits(json.loads(generate({"num_predict": 200}, format=SCHEMA).response))
    assert fits(json.loads(generate({"num_predict": 200}, format=SCHEMA, raw=True).response))


@case
def ollama_format_json():
    text = talk({"num_predict": 12}, format="json").message.content
    assert text.lstrip().startswith("{"), text


@case
def ollama_tools():
    tools = [{"type": "function", "function": WEATHER}]
    turns = HELLO + [
        {"role": "assistant", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Rome", "days": 1}}}]},
        {"role": "tool", "tool_name": "get_weather", "content": "sunny"},
    ]
    with_tools = talk(tools=tools, messages=turns)
    assert with_tools.done and with_tools.prompt_eval_count > talk().prompt_eval_count


@case
def ollama_generate():
    answer = generate()
    assert answer.response and answer.done and "".join(line.response for line in generate(stream=True)) == answer.response
    raw = generate(raw=True)
    assert raw.prompt_eval_count < answer.prompt_eval_count < generate(system="Be brief.").prompt_eval_count


@case
def ollama_logprobs():
    for answer in (talk({"num_predict": 3}, logprobs=True, top_logprobs=2), generate({"num_predict": 3}, logprobs=True, top_logprobs=2)):
        assert len(answer.logprobs) == 3 and all(len(p.top_logprobs) == 2 for p in answer.logprobs)
    lines = list(talk({"num_predict": 3}, logprobs=True, stream=True))
    assert sum(len(line.logprobs or []) for line in lines) == 3


@case
def ollama_think():
    for think in (True, False, "low"):
        assert talk(think=think).message.content


@case
def ollama_load():
    assert oll.generate(model=MODEL, keep_alive=5).done_reason == "load"
    assert oll.chat(model=MODEL, messages=[]).done_reason == "load"


@case
def ollama_models():
    [model] = oll.list().models
    assert model.size > 0 and model.details.format == "gguf" and len(model.digest) == 64
    [running] = oll.ps().models
    assert running.model == model.model and running.context_length > 0
    shown = oll.show(model.model)
    arch = shown.modelinfo["general.architecture"]
    assert shown.modelinfo[arch + ".context_length"] > 0 and shown.modelinfo["general.basename"]
    assert "completion" in shown.capabilities and shown.template and shown.details.quantization_level


@case
def ollama_errors():
    def status(expected, call, part):
        error = refused(ollama.ResponseError, call, part)
        assert error.status_code == expected, error

    status(400, lambda: generate(suffix="x"), "suffix")
    status(400, lambda: generate(images=[b"x"]), "images")
    status(400, lambda: talk(messages=[{"role": "user", "content": "x", "images": [b"x"]}]), "images")
    status(400, lambda: talk({"mirostat": 2}), "mirostat")
    status(400, lambda: talk({"temperature": "hot"}), "temperature")
    status(501, lambda: oll.pull("x"), "/api/pull")
    status(501, lambda: oll.delete("x"), "/api/delete")
    status(501, lambda: oll.embed(MODEL, "x"), "embeddings")


def main():
    passed, failed = 0, []
    for run in CASES:
        if ONLY not in run.__name__:
            continue
        try:
            run()
            passed += 1
        except Exception:
            failed.append(run.__name__)
            print(f"--- {run.__name__}\n{traceback.format_exc(limit=-3)}")
    print(*failed, sep="\n")
    print(f"{passed} passed, {len(failed)} failed")
    # Nothing run is no success.
    sys.exit(1 if failed or not passed else 0)


main()
