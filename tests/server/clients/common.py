"""What all cases share: the clients, a schema, short ways to ask."""


import sys

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
