"""The half of `Llama` that goes token by token: `eval`, `sample`, `generate`, and the logits in between."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, Generator, Iterator, List, Optional, Sequence

from . import Engine, Stream, Unsupported
from ._arguments import refuse
from ._llama_arguments import STEP


@dataclass
class LlamaState:
    """A saved state of `Llama`: its tokens, and what was computed for them."""

    input_ids: List[int]
    n_tokens: int
    llama_state: bytes
    llama_state_size: int


class Steps:
    """Tokens that were put one behind another. They are computed where something is asked for that needs it."""

    @property
    def _engine(self) -> Engine:
        raise NotImplementedError

    def _begin_steps(self, logits_all: bool) -> None:
        self._evaluated: List[int] = []
        self._logits_all = logits_all

    def n_ctx(self) -> int:
        """Tokens of context."""
        raise NotImplementedError

    def _sampling(self, given: Dict[str, Any]) -> Dict[str, Any]:
        raise NotImplementedError

    def eval(self, tokens: Sequence[int]) -> None:
        """Puts tokens behind those that were put before."""
        self._evaluated.extend(tokens)

    def reset(self) -> None:
        """Forgets the tokens of `eval`."""
        self._evaluated.clear()

    def sample(
        self,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        temp: float = 0.8,
        repeat_penalty: float = 1.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_eta: float = 0.1,
        mirostat_tau: float = 5.0,
        penalize_nl: bool = True,
        logits_processor: Optional[Any] = None,
        grammar: Optional[Any] = None,
        idx: Optional[int] = None,
    ) -> int:
        """The next token behind those of `eval`; it is not put behind them."""
        refuse(locals(), STEP)
        if idx is not None:
            raise Unsupported(f"idx={idx}: a token is chosen after the last one; eval fewer tokens")
        given = {
            "stop": None,
            "seed": None,
            "logit_bias": None,
            "logprobs": None,
            "max_tokens": 1,
            "temperature": temp,
            "grammar": None,
        }
        return int(self._engine.generate(list(self._evaluated), **self._sampling({**locals(), **given})).tokens[0])

    def generate(
        self,
        tokens: Sequence[int],
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        temp: float = 0.8,
        repeat_penalty: float = 1.0,
        reset: bool = True,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        penalize_nl: bool = True,
        logits_processor: Optional[Any] = None,
        stopping_criteria: Optional[Any] = None,
        grammar: Optional[Any] = None,
    ) -> Generator[int, Optional[Sequence[int]], None]:
        """Tokens one after another, past the end of the text; tokens that are sent in are put behind what there is."""
        refuse(locals(), STEP)
        given = {
            "stop": None,
            "seed": None,
            "logit_bias": None,
            "logprobs": None,
            "max_tokens": None,
            "temperature": temp,
        }
        sampling = {**locals(), **given}
        if reset:
            self.reset()
        self.eval(tokens)
        return self._generate(sampling)

    def _generate(self, given: Dict[str, Any]) -> Generator[int, Optional[Sequence[int]], None]:
        while len(self._evaluated) < self.n_ctx():
            with self._engine.stream(list(self._evaluated), **self._sampling(given)) as stream:
                for token in _tokens(stream):
                    self._evaluated.append(token)
                    sent = yield token
                    if sent:
                        self.eval(sent)
                        break

    @property
    def n_tokens(self) -> int:
        """Tokens of `eval` so far."""
        return len(self._evaluated)

    @property
    def eval_tokens(self) -> Deque[int]:
        """The tokens of `eval` so far."""
        return deque(self._evaluated, maxlen=self.n_ctx())

    @property
    def scores(self) -> Any:
        """Logits after each token of `eval`, a numpy array [n_tokens, n_vocab]; without `logits_all` only the last row."""
        logits = self._engine.logits(list(self._evaluated), all=self._logits_all)
        return logits if self._logits_all else logits[None, :]

    @property
    def eval_logits(self) -> Deque[List[float]]:
        """The rows of `scores` as lists."""
        return deque(self.scores.tolist(), maxlen=self.n_ctx())

    def save_state(self) -> LlamaState:
        """The tokens of `eval` and what was computed for them, to be given to `load_state`."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            self._engine.save(path)
            with open(path, "rb") as file:
                state = file.read()
        return LlamaState(list(self._evaluated), len(self._evaluated), state, len(state))

    def load_state(self, state: LlamaState) -> None:
        """Goes back to a saved state."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            with open(path, "wb") as file:
                file.write(state.llama_state)
            self._engine.load(path)
        self._evaluated = list(state.input_ids)


def processor(given: Any) -> Callable[[Any, Any], Any]:
    """A callable, or a list of them one after another, as `Engine.generate` takes it."""
    steps = [given] if callable(given) else list(given)

    def run(tokens: Any, logits: Any) -> Any:
        for step in steps:
            logits = step(tokens, logits)
        return logits

    return run


def _tokens(stream: Stream) -> Iterator[int]:
    """The tokens of a stream as they come."""
    given = 0
    for _ in stream:
        yield from stream.tokens[given:]
        given = len(stream.tokens)
    yield from stream.completion.tokens[given:]
