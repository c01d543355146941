"""Log-probabilities with the texts of tokens, as dicts that `_openai` puts into its forms."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from . import Engine, Logprob

Entry = Dict[str, Any]
"""`token` (its text), `logprob`, `top_logprobs` (the same of the likeliest)."""


def log_softmax(logits: Any, axis: int = -1) -> Any:
    """The logarithm of the softmax along an axis, a numpy array of float32."""
    import numpy

    found = numpy.asarray(logits, dtype=numpy.float32)
    found = found - found.max(axis=axis, keepdims=True)
    return found - numpy.log(numpy.exp(found).sum(axis=axis, keepdims=True))


def entries(engine: Engine, found: Sequence[Logprob]) -> List[Entry]:
    """Those of an answer."""
    return [
        {
            "token": _text(each.piece),
            "logprob": each.logprob,
            "top_logprobs": [
                {"token": _text(piece), "logprob": logprob}
                for piece, (_, logprob) in zip(engine.pieces([token for token, _ in each.top]), each.top)
            ],
        }
        for each in found
    ]


def prompt_entries(engine: Engine, tokens: Sequence[int], n: int) -> List[Entry]:
    """Those of a prompt's own tokens, and of the n likeliest in their place; nothing predicts the first one.

    The token at the beginning of every text is left out.
    """
    first = 1 if list(tokens[:1]) == [engine.info()["bos"]] else 0
    rows = log_softmax(engine.logits(list(tokens), all=True))
    pieces = engine.pieces(list(tokens))
    found: List[Entry] = []
    for at in range(first, len(tokens)):
        entry: Entry = {"token": _text(pieces[at]), "logprob": None, "top_logprobs": []}
        if at > first:
            row = rows[at - 1]
            likeliest = [int(token) for token in row.argsort()[::-1][:n]]
            entry["logprob"] = float(row[tokens[at]])
            entry["top_logprobs"] = [
                {"token": _text(piece), "logprob": float(row[token])}
                for piece, token in zip(engine.pieces(likeliest), likeliest)
            ]
        found.append(entry)
    return found


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", errors="ignore")
