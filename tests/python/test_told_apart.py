"""Thoughts, calls of tools and what is said: told apart in whole answers, and in streams as they come."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Callable

import pytest
import qrun
import qrun.llcuda as llcuda
from conftest import DEVICE, PROMPT, Open
from qrun.llcuda import chat

pytest.importorskip("numpy")

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Rome", "Oslo"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]
ROME = '{"city": "Rome"}'
CALL = {"type": "function", "function": {"name": "weather", "arguments": ROME}}

# A template that has the marks of Qwen 3.
QWEN = "{# <tool_call> </tool_call> <think> </think> #}{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
THINKING = QWEN + "<think>\n"

THOUGHT = "<|channel|>analysis<|message|>Hm, <b>.<|end|><|start|>assistant"
HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'

# Template, whether there are tools, what the model writes, what of it is for the reader, and how many calls it has.
ANSWERS: "list[tuple[str, bool, str, str, int]]" = [
    ("harmony", False, f"{THOUGHT}<|channel|>final<|message|>Yes, a < b. \n", "Yes, a < b. \n", 0),
    ("harmony", False, "<|channel|>final<|message|>Yes <|e", "Yes <|e", 0),
    ("harmony", False, f"{THOUGHT}<|channel|>commentary<|message|>Wait<|end|><|start|>assi", "", 0),
    ("harmony", False, "Hello <|en there", "Hello <|en there", 0),
    ("harmony", True, THOUGHT + "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + ROME, "", 1),
    ("harmony", True, THOUGHT + " to=functions.weather<|channel|>commentary json<|message|>" + ROME, "", 1),
    ("harmony", True, f"{THOUGHT}<|channel|>final<|message|>It rains.", "It rains.", 0),
    (QWEN, True, f"<think>\nHm\n</think>\n\nI look. \n\n{HERMES}\n{HERMES}", "I look.", 2),
    (QWEN, True, "<think>\nHm\n</think>\n\n" + HERMES, "", 1),
    (QWEN, True, " a <b> [c] {d} <tool", " a <b> [c] {d} <tool", 0),
    (QWEN, True, "<think>\nHm", "", 0),
    (THINKING, True, f"Hm\n</think>\n\nI look.{HERMES}", "I look.", 1),
    (THINKING, False, "Hm\n</think>\n\nNo tools, no parser.", "Hm\n</think>\n\nNo tools, no parser.", 0),
    # The demo model's own template has no form for calls: they are an object.
    ("", True, '{"tool_call": {"name": "weather", "arguments": {"city": "Rome"}}}', "", 1),
    ("", True, '{"a": 1} is an object.', '{"a": 1} is an object.', 0),
]


def says(engine: qrun.Engine, text: str) -> Callable[[Any, Any], Any]:
    """A logits processor by which the model writes a text, and ends."""
    tokens = [*engine.tokenize(text, add_special=False), engine.info()["eos"]]
    begin: "list[int]" = []

    def only(ids: Any, scores: Any) -> Any:
        begin.append(len(ids))
        scores[:] = float("-inf")
        scores[tokens[min(len(ids) - begin[0], len(tokens) - 1)]] = 0
        return scores

    return only


@pytest.mark.parametrize("template, tools, written, content, calls", ANSWERS)
def test_a_stream_is_what_the_answer_is(
    template: str, tools: bool, written: str, content: str, calls: int, open_engine: Open
) -> None:
    # What is told apart is text: the CPU writes it sooner than an emulated GPU.
    engine = open_engine(chat_template=template or None, n_ctx=1024, device="cpu")
    how: "dict[str, Any]" = {"tools": TOOLS} if tools else {}
    done = engine.generate(PROMPT, logits_processor=says(engine, written), **how)
    assert done.message is not None and done.text == done.message["content"] == content
    found = done.message.get("tool_calls", [])
    assert [{"type": call["type"], "function": call["function"]} for call in found] == [CALL] * calls
    assert done.finish_reason == ("tool_calls" if calls else "stop")
    stream = engine.stream(PROMPT, logits_processor=says(engine, written), **how)
    pieces = list(stream)
    assert all(pieces) and "".join(pieces) == stream.completion.text == content
    # `special` is all that was written, the token that ends it too.
    whole = engine.generate(PROMPT, logits_processor=says(engine, written), special=True, **how)
    assert whole.text.startswith(written)
    assert "".join(engine.stream(PROMPT, logits_processor=says(engine, written), special=True, **how)) == whole.text


def test_what_is_said_comes_as_it_is_generated(open_engine: Open) -> None:
    """An answer that is never finished is shown all the same."""
    text = "One, two, three, four, five, six."
    thought = THOUGHT + "<|channel|>final<|message|>"
    for template, before, how in [("harmony", thought, {}), (QWEN, "<think>a</think>", {"tools": TOOLS})]:
        engine = open_engine(chat_template=template, n_ctx=1024, device="cpu")
        with engine.stream(PROMPT, logits_processor=says(engine, before + text * 20), **how) as stream:
            shown = [next(stream) for _ in range(8)]
        assert text.startswith("".join(shown)[: len(text)]) and len(stream.completion.tokens) < 400


def marked(path: Path, folder: Path) -> Path:
    """A model whose vocabulary has the marks of gpt-oss, in place of tokens that nobody uses."""
    data, spare = path.read_bytes(), 0

    def named(name: bytes) -> bytes:
        return struct.pack("<Q", len(name)) + name

    marks = [b"channel", b"message", b"start", b"constrain", b"end", b"return", b"call"]
    for n, mark in enumerate([*marks, b""], 100):
        old = b"<|reserved_special_token_%d|>" % n
        # The last one gets as much longer as the others got shorter: nothing behind them moves.
        new = b"<|%s|>" % mark if mark else old + b"x" * spare
        assert data.count(named(old)) == 1
        data, spare = data.replace(named(old), named(new)), spare + len(old) - len(new)
    out = folder / "marked.gguf"
    out.write_bytes(data)
    return out


def test_gpt_oss(tiny: Any, tmp_path: Path, open_engine: Open) -> None:
    """Its marks are control tokens. Every way to ask gives what is in the channel `final`."""
    model = marked(tiny("tiny-gpt-oss"), tmp_path)
    where: "dict[str, Any]" = {"chat_template": "harmony", "n_ctx": 1024, "device": DEVICE}
    engine = open_engine(model, **where)
    assert len(engine.tokenize("<|channel|>final<|message|>", add_special=False)) < 8
    content = "Yes, a < b."
    written = f"{THOUGHT}<|channel|>final<|message|>{content}"

    def how() -> "dict[str, Any]":
        return {"logits_processor": says(engine, written)}

    done = engine.generate(PROMPT, **how())
    assert (done.text, done.finish_reason) == (content, "stop")
    assert done.message == {"role": "assistant", "content": content, "reasoning_content": "Hm, <b>."}
    talk = engine.chat()
    assert "".join(talk.stream(PROMPT, **how())) == content == talk.messages[-1]["content"]

    llama = qrun.Llama(str(model), verbose=False, **where)
    messages = [{"role": "user", "content": PROMPT}]
    answer = llama.create_chat_completion(messages, **how())
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": content}
    deltas = [c["choices"][0]["delta"] for c in llama.create_chat_completion(messages, stream=True, **how())]
    assert deltas[0] == {"role": "assistant"} and "".join(delta.get("content", "") for delta in deltas) == content
    llama.close()

    with llcuda.InferenceEngine() as there:
        there.load_model(str(model), ctx_size=1024, silent=True, device=DEVICE, chat_template="harmony")
        assert there.infer(PROMPT, **how()).text == content
        heard: "list[str]" = []
        assert there.infer_stream(PROMPT, heard.append, **how()).text == content == "".join(heard)
        assert chat.ChatEngine(there).add_user_message(PROMPT).complete(**how()) == content
        assert "".join(chat.ChatEngine(there).add_user_message(PROMPT).complete_stream(**how())) == content


def test_calls_come_as_llama_cpp_pythons_and_openais_chunks() -> None:
    llama = qrun.Llama("demo", verbose=False, device=DEVICE, n_ctx=1024)
    messages = [{"role": "user", "content": "How is the weather in Rome?"}]

    def asked(written: str, **how: Any) -> Any:
        how["logits_processor"] = says(llama._engine, written)
        return llama.create_chat_completion(messages, tools=TOOLS, **how)

    written = json.dumps({"tool_call": {"name": "weather", "arguments": {"city": "Rome"}}})
    whole = asked(written)["choices"][0]
    (call,) = whole["message"]["tool_calls"]
    assert whole["finish_reason"] == "tool_calls" and whole["message"]["content"] is None
    assert call == {**CALL, "id": call["id"]} and call["id"]
    chunks = [chunk["choices"][0] for chunk in asked(written, tool_choice="required", stream=True)]
    (streamed,) = chunks[1]["delta"]["tool_calls"]
    assert streamed == {"index": 0, **CALL, "id": streamed["id"]} and streamed["id"]
    assert [list(chunk["delta"]) for chunk in chunks] == [["role"], ["tool_calls"], []]
    assert [chunk["finish_reason"] for chunk in chunks] == [None, None, "tool_calls"]
    # Nothing is called: what is said is content.
    chunks = [chunk["choices"][0] for chunk in asked("It rains.", stream=True)]
    assert "".join(chunk["delta"].get("content", "") for chunk in chunks) == "It rains." and len(chunks) > 4
    assert chunks[-1]["finish_reason"] == "stop"
    llama.close()
