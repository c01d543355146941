"""Anthropic's client."""

import json

import anthropic

from common import *


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
    # Several calls; the limit cuts the last, whose beginning is text.
    assert some.content[0].type == "tool_use" and fits(some.content[0].input)
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
