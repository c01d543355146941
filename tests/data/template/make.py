"""Writes cases.json: conversations rendered by transformers' own renderer, for tests/template.rs.

    python make.py     # needs transformers

The templates (*.jinja here, and the engine's built-in ones) are qrun's own; they use what the public ones use.
"""
import datetime as real
import json
import pathlib

import jinja2
from transformers.utils import chat_template_utils as renderer

HERE = pathlib.Path(__file__).parent
BUILTIN = HERE / "../../../src/text/template/builtin"
NOW = 1_772_366_399  # 2026-03-01 11:59:59 UTC, a Sunday


class Clock(real.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, real.timezone.utc)


renderer.datetime = Clock


def say(role, content, **extra):
    return {"role": role, "content": content, **extra}


call = lambda name, **arguments: {"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": arguments}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "What it's like <outside> & \"now\"", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Größe zählt: 城市"},
            "days": {"type": "integer", "minimum": 0, "maximum": 10.5, "default": None},
            "units": {"type": "string", "enum": ["C", "F"]}}}}},
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}},
]
CHATS = {
    "user": [say("user", "Hello")],
    "system+user": [say("system", " Be brief. "), say("user", "Hello")],
    "turns": [say("system", "Be brief."), say("user", "One?"), say("assistant", " 1 "), say("user", "Two?"),
              say("assistant", "2\n"), say("user", "Three?")],
    "thinking": [say("user", "2+2?"), say("assistant", "<think>\nIt is easy.\n</think>\n\n4"), say("user", "3+3?"),
                 say("assistant", "<think>\nAlso easy.\n</think>\n\n6")],
    "channel": [say("user", "2+2?"), say("assistant", "<|channel>thought\nEasy.\n<channel|>4"), say("user", "3+3?")],
    "reasoning field": [say("user", "2+2?"), say("assistant", "4", reasoning_content="It is easy.")],
    "reasoning alias": [say("user", "2+2?"), say("assistant", "4", thinking="Easy, under another name.")],
    "prefix": [say("user", "Count"), say("assistant", "One, two,")],
    "empty": [say("user", ""), say("assistant", ""), say("user", "  ")],
    "unicode": [say("user", 'Zürich "城市" 👩‍👩‍👧 \'q\' \\n\n\ttab\r\n\n<b>&amp;</b> {{ x }} {% y %} \u2028end ')],
    "order": [say("user", "a"), say("user", "b")],
    "assistant first": [say("assistant", "a"), say("user", "b")],
    "tool use": [say("user", "Weather?"), say("assistant", "", tool_calls=[call("weather", city="Zürich", days=2)]),
                 say("tool", '{"t": 21.5}', tool_call_id="abcdefghi", name="weather"), say("assistant", "21.5 °C"),
                 say("user", "Thanks")],
    "two calls": [say("user", "Weather?"), say("assistant", "Both:", tool_calls=[call("weather", city="A"), call("noop")]),
                  say("tool", "1", tool_call_id="abcdefghi"), say("tool", "2", tool_call_id="abcdefghi")],
    "parts": [say("user", [{"type": "image"}, {"type": "text", "text": " What is it? "}])],
}
PLAIN = ["user", "system+user", "turns", "prefix", "empty", "unicode", "order", "assistant first"]
DATA = {"name": "x", "b": [1, 2.5, 1e-7, 1e16, 12345678901234567890, True, None], "a": {"z": "é\u007f\u0001", "y": []},
        "nested": {"deep": [1, "two", {}]}}


def cases():
    for chat in PLAIN + ["thinking"]:
        for prompt in (True, False):
            for template in ("gemma3", "llama3", "chatml", "mistral"):
                yield template, chat, prompt, {}, None
    for chat in [c for c in CHATS if c not in ("parts", "channel")]:
        for kwargs in ({}, {"enable_thinking": True}, {"enable_thinking": False}):
            yield "qwen3", chat, True, kwargs, None
        yield "qwen3", chat, False, {}, None
    for template in ("llama3", "qwen3", "mistral"):
        for chat in ("user", "system+user", "tool use", "two calls"):
            yield template, chat, True, {}, TOOLS
    yield "llama3", "turns", True, {"date_string": "26 Jul 2024"}, None
    yield "gemma3", "parts", True, {}, None
    for chat in ("user", "unicode", "turns"):
        yield "features", chat, True, {"data": DATA}, None
    for name in sorted(path.stem for path in BUILTIN.glob("*.jinja")):
        for chat in PLAIN + (["thinking"] if name == "qwen3" else []):
            yield "builtin/" + name, chat, True, {"enable_thinking": False} if name == "qwen3" else {}, None
        yield "builtin/" + name, "turns", False, {}, None
    for thinking in (True, False):
        yield "builtin/gemma4", "system+user", True, {"enable_thinking": thinking}, None
    yield "builtin/gemma4", "user", True, {"enable_thinking": True}, None
    yield "builtin/gemma4", "channel", True, {}, None
    for chat in ("user", "system+user", "tool use", "two calls"):
        yield "builtin/harmony", chat, True, {"reasoning_effort": "high"}, TOOLS


def source(template):
    base = BUILTIN if template.startswith("builtin/") else HERE
    return (base / (template.removeprefix("builtin/") + ".jinja")).read_text()


def main():
    out = []
    for template, chat, prompt, kwargs, tools in cases():
        case = {"template": template, "chat": chat, "add_generation_prompt": prompt}
        case |= {"kwargs": kwargs} if kwargs else {}
        case |= {"tools": True} if tools else {}
        try:
            rendered, _ = renderer.render_jinja_template(
                conversations=[CHATS[chat]], tools=tools, chat_template=source(template), add_generation_prompt=prompt,
                bos_token="<s>", eos_token="</s>", **kwargs)
            case["text"] = rendered[0]
        except jinja2.exceptions.TemplateError as error:
            case["raises"] = str(error)
        out.append(case)
    head = {"now": NOW, "chats": CHATS, "tools": TOOLS}
    with open(HERE / "cases.json", "w") as file:
        rows = ",\n".join(json.dumps(case, ensure_ascii=False) for case in out)
        file.write(json.dumps(head, ensure_ascii=False)[:-1] + ',\n"cases": [\n' + rows + "\n]}\n")
    print(len(out), "cases,", sum("raises" in case for case in out), "raise")


main()
