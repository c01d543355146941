"""What `Llama.eval` keeps, and the logits after it."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

from . import Engine


@dataclass
class LlamaState:
    """A saved state of `Llama`: its tokens, and what was computed for them."""

    input_ids: List[int]
    n_tokens: int
    llama_state: bytes
    llama_state_size: int


class Evaluated:
    """Tokens of a `Llama`, evaluated where their logits are asked for."""

    def __init__(self, engine: Engine, logits_all: bool) -> None:
        self.engine = engine
        self.logits_all = logits_all
        self.tokens: List[int] = []

    def scores(self) -> Any:
        """Logits, a numpy array [n, n_vocab]: after each token, or after the last one."""
        logits = self.engine.logits(list(self.tokens), all=self.logits_all)
        return logits if self.logits_all else logits[None, :]

    def save(self) -> LlamaState:
        """A copy that `load` takes."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            self.engine.save(path)
            with open(path, "rb") as file:
                state = file.read()
        return LlamaState(list(self.tokens), len(self.tokens), state, len(state))

    def load(self, state: LlamaState) -> None:
        """Goes back to a copy."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            with open(path, "wb") as file:
                file.write(state.llama_state)
            self.engine.load(path)
        self.tokens = list(state.input_ids)


def prompt_logprobs(engine: Engine, tokens: Sequence[int], n: int) -> List[Dict[str, Any]]:
    """Log-probabilities of a prompt's own tokens and the n likeliest in their place; nothing predicts the first one.

    A token at the beginning of every text is left out.
    """
    from .llama import Llama

    first = 1 if tokens[:1] == [engine.info()["bos_token_id"]] else 0
    rows = Llama.logits_to_logprobs(engine.logits(list(tokens), all=True))

    def text(token: int) -> str:
        return engine.pieces([token])[0].decode("utf-8", errors="ignore")

    entries: List[Dict[str, Any]] = []
    for at in range(first, len(tokens)):
        entry: Dict[str, Any] = {"token": text(tokens[at]), "logprob": None, "top_logprobs": []}
        if at > first:
            row = rows[at - 1]
            likeliest = row.argsort()[::-1][:n] if n else []
            entry["logprob"] = float(row[tokens[at]])
            entry["top_logprobs"] = [{"token": text(int(i)), "logprob": float(row[i])} for i in likeliest]
        entries.append(entry)
    return entries
