"""Ollama's client."""

import json

import ollama

from common import *


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
