"""The keywords of an answer: their names, and the other names that people know them by."""

from __future__ import annotations

from qrun._errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Mapping

SAMPLING = (
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "top_n_sigma",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "logit_bias",
    "logprobs",
    "logits_processor",
    "ignore_eos",
    "special",
)
"""What decides how tokens are chosen and where an answer ends."""

PROMPT = ("raw", "system", "tools", "tool_choice", "template_kwargs")
"""What decides how a prompt becomes tokens."""

CONSTRAINTS = ("grammar", "json_schema", "response_format")
"""What an answer may be, one of them: a grammar in GBNF, a JSON schema, OpenAI's `response_format`."""

ALIASES = {
    "max_new_tokens": "max_tokens",
    "n_predict": "max_tokens",
    "repetition_penalty": "repeat_penalty",
    "stop_sequences": "stop",
}


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuses the first keyword that is not known, as Python does, and names the nearest."""
    known = list(known)
    for name in given:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else f"; expected one of {', '.join(known)}"
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")


def canonical(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords under one name each."""
    check_names(keywords, (*SAMPLING, *PROMPT, *CONSTRAINTS, *ALIASES, "do_sample"))
    found: dict[str, Any] = {}
    for name, value in keywords.items():
        if name == "do_sample":
            continue
        name = ALIASES.get(name, name)
        if found.get(name) is not None and value is not None:
            raise TypeError(f"{name} is given twice, under two of its names")
        if value is not None:
            found[name] = value
    if keywords.get("do_sample") is False:
        found["temperature"] = 0.0
    return found


def constraint(keywords: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the answer may be, as the native part takes it.

    >>> constraint({"grammar": 'root ::= "yes" | "no"'})
    {'gbnf': 'root ::= "yes" | "no"'}
    >>> constraint({"response_format": {"type": "json_object"}})
    {'json_object': True}
    """
    given = [name for name in CONSTRAINTS if keywords.get(name) is not None]
    if not given:
        return None
    if len(given) > 1:
        raise TypeError(f"{' and '.join(given)}: an answer is held to one of them")
    value = keywords[given[0]]
    if given[0] == "grammar":
        if not isinstance(value, str):
            raise TypeError(f"grammar: expected GBNF text, found {type(value).__name__}")
        return {"gbnf": value}
    if given[0] == "json_schema":
        return {"json_schema": _schema(value)}
    kind = value.get("type") if hasattr(value, "get") else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"json_schema": _schema(value["schema"])} if "schema" in value else {"json_object": True}
    if kind == "json_schema":
        schema = (value.get("json_schema") or {}).get("schema", value.get("schema"))
        if schema is None:
            raise TypeError('response_format: expected {"type": "json_schema", "json_schema": {"schema": ...}}')
        return {"json_schema": _schema(schema)}
    raise TypeError(f"response_format: expected the type text, json_object or json_schema, found {value!r}")


def _schema(value: Any) -> Any:
    """A schema: a dict, True, or JSON text."""
    if not isinstance(value, str):
        return value
    import json

    try:
        return json.loads(value)
    except ValueError as error:
        raise UsageError(f"json_schema: expected JSON, found {value!r}: {error}") from None


def native(keywords: Mapping[str, Any], tokenize: Callable[[str], list[int]]) -> dict[str, Any]:
    """The keywords as the native part takes them: lists for what may be one or many."""
    found = {name: keywords[name] for name in SAMPLING if name in keywords}
    stop = found.get("stop")
    if isinstance(stop, str):
        found["stop"] = [stop]
    elif stop is not None:
        found["stop"] = list(stop) if hasattr(stop, "__iter__") else stop
    bias = found.get("logit_bias")
    if bias is not None:
        if isinstance(bias, str) or not hasattr(bias, "__iter__"):
            raise TypeError(f"logit_bias: expected a dict from tokens to numbers, found {bias!r}")
        pairs = bias.items() if hasattr(bias, "items") else bias
        found["logit_bias"] = [
            (token, float("-inf") if value is False else value)
            for key, value in pairs
            for token in (tokenize(key) if isinstance(key, str) else [key])
        ]
    if found.get("logits_processor") is not None:
        found["logits_processor"] = _processor(found["logits_processor"])
    if found.get("logprobs") is False:
        del found["logprobs"]
    elif found.get("logprobs") is True:
        found["logprobs"] = 0
    return found


def _processor(given: Any) -> Callable[[list[int], bytearray], None]:
    """One function, or a list of them, over numpy arrays: `(input_ids, scores) -> scores`."""
    import numpy

    functions = [given] if callable(given) else list(given)

    def process(tokens: list[int], logits: bytearray) -> None:
        ids = numpy.array(tokens, dtype=numpy.intc)
        scores = numpy.frombuffer(logits, dtype=numpy.float32)
        for function in functions:
            changed = function(ids, scores)
            if changed is not None and changed is not scores:
                scores[:] = changed

    return process


def per_prompt(keywords: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
    """The keywords of each of `n` prompts: a list with `n` items has one for each, all else is for all.

    `stop` and `tools` are lists anyway: only a list of lists is one per prompt.
    """
    rows: list[dict[str, Any]] = [{} for _ in range(n)]
    for name, value in keywords.items():
        each = isinstance(value, (list, tuple))
        if each and name in ("stop", "tools", "logit_bias", "stop_sequences", "logits_processor"):
            each = bool(value) and all(item is None or isinstance(item, (list, tuple)) for item in value)
            each = each and name != "logit_bias"
        if each and len(value) != n:
            raise TypeError(f"{name}: expected one value, or one for each of {n} prompts; found {len(value)}")
        for i, row in enumerate(rows):
            row[name] = value[i] if each else value
    return rows
