"""OpenAI's client: responses."""

import json

import openai

from common import *


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
