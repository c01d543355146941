"""Records what llama-cpp-python's answers and signatures look like: key names, types, parameters, defaults. No text of its.

    pip install llama-cpp-python numpy
    python tests/python/shapes/record.py MODEL.gguf

The files beside this one were made so from a run of llama-cpp-python 0.3.36 with `models/demo/qrun-demo-Q4_K_M.gguf`.
`tests/python/test_llama.py` holds `qrun.Llama` to them: `ask` and `shape` below serve both.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any, Callable, Iterable

HERE = Path(__file__).parent
PROMPT = "<start_of_turn>user\nWhat is qrun?<end_of_turn>\n<start_of_turn>model\n"
MESSAGES = [{"role": "user", "content": "What is qrun?"}]

# Greedy, and a few tokens: enough for every kind of chunk.
ASKS: dict[str, Callable[[Any], Any]] = {
    "completion": lambda m: m(PROMPT, max_tokens=4, temperature=0.0),
    "completion-logprobs": lambda m: m(PROMPT, max_tokens=4, temperature=0.0, logprobs=2),
    "completion-echo-logprobs": lambda m: m(PROMPT, max_tokens=4, temperature=0.0, logprobs=2, echo=True),
    "completion-stream": lambda m: list(m(PROMPT, max_tokens=4, temperature=0.0, stream=True)),
    "completion-stream-logprobs": lambda m: list(m(PROMPT, max_tokens=4, temperature=0.0, stream=True, logprobs=2)),
    "chat": lambda m: m.create_chat_completion(MESSAGES, max_tokens=4, temperature=0.0),
    "chat-logprobs": lambda m: m.create_chat_completion(
        MESSAGES, max_tokens=4, temperature=0.0, logprobs=True, top_logprobs=2
    ),
    "chat-stream": lambda m: list(m.create_chat_completion(MESSAGES, max_tokens=4, temperature=0.0, stream=True)),
    "chat-stream-logprobs": lambda m: list(
        m.create_chat_completion(MESSAGES, max_tokens=4, temperature=0.0, stream=True, logprobs=True, top_logprobs=2)
    ),
}

METHODS = [
    "__init__", "__call__", "create_completion", "create_chat_completion", "create_chat_completion_openai_v1", "tokenize",
    "detokenize", "eval", "sample", "generate", "reset", "set_seed", "set_cache", "save_state", "load_state", "n_ctx",
    "n_vocab", "n_embd", "token_bos", "token_eos", "token_nl", "close", "from_pretrained", "create_embedding", "embed",
    "logits_to_logprobs", "longest_token_prefix", "tokenizer", "pooling_type",
]  # fmt: skip


def shape(value: Any, key: str = "") -> Any:
    """What a value looks like: names of types; of a list the different shapes of its items; {"*": shapes} for a dict whose
    keys are tokens."""
    if isinstance(value, dict):
        if key == "top_logprobs" and all(hasattr(v, "real") for v in value.values()):
            return {"*": different(value.values())}
        return {k: shape(v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return different(value, key)
    if hasattr(value, "dtype"):  # numpy's numbers count as Python's
        value = value.item()
    return "None" if value is None else type(value).__name__


def different(values: Iterable[Any], key: str = "") -> list[Any]:
    """The different shapes, sorted."""
    return [json.loads(text) for text in sorted({json.dumps(shape(v, key), sort_keys=True) for v in values})]


def signature(method: Callable[..., Any]) -> list[list[str]]:
    """Name, kind and default of each parameter."""
    parameters = inspect.signature(method).parameters.values()
    empty = inspect.Parameter.empty
    return [
        [p.name, p.kind.name, "" if p.default is empty else repr(p.default)]
        for p in parameters
        if p.name not in ("self", "cls")
    ]


def main(model: str) -> None:
    """Asks llama-cpp-python, and writes a file for each answer."""
    import llama_cpp

    llama = llama_cpp.Llama(model, n_ctx=256, logits_all=True, verbose=False)
    for name, ask in ASKS.items():
        write(name, shape(ask(llama)))
    write("signatures", {name: signature(getattr(llama_cpp.Llama, name)) for name in METHODS})


def write(name: str, what: Any) -> None:
    """A file beside this one."""
    (HERE / f"{name}.json").write_text(json.dumps(what, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
