"""A finished answer."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Logprob:
    """How probable a token of an answer was, and what the likeliest tokens were.

    >>> import qrun
    >>> done = qrun.Engine().generate([1, 2, 3], max_tokens=1, temperature=0, logprobs=2)
    >>> first = done.logprobs[0]
    >>> first.token == done.tokens[0] == first.top[0][0]
    True
    >>> first.logprob == first.top[0][1] <= 0
    True
    """

    __module__ = "qrun"
    __slots__ = ("token", "piece", "logprob", "top")

    token: int
    """Id of the token."""
    piece: bytes
    """Its bytes; half a character is possible."""
    logprob: float
    """Natural logarithm of its probability, before any sampling."""
    top: list[tuple[int, float]]
    """The likeliest tokens and their log-probabilities, the likeliest first: as many as `logprobs` asked for."""

    def __init__(self, token: int, piece: bytes, logprob: float, top: list[tuple[int, float]]) -> None:
        for name, value in zip(self.__slots__, (token, piece, logprob, top)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: a Logprob does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        return Logprob, (self.token, self.piece, self.logprob, self.top)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Logprob):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Logprob({self.token}, {self.piece!r}, {self.logprob:.4f}, {len(self.top)} likeliest)"


class Completion:
    """A finished answer. It does not change, prints as its text, and can be pickled.

    >>> import qrun
    >>> done = qrun.Engine().generate("What is a page table?", max_tokens=4, temperature=0)
    >>> len(done.tokens), done.finish_reason
    (4, 'length')
    >>> str(done) == done.text
    True
    """

    __module__ = "qrun"
    __slots__ = (
        "text",
        "tokens",
        "finish_reason",
        "stop",
        "prompt_tokens",
        "cached_tokens",
        "seed",
        "logprobs",
        "message",
        "timings",
    )

    text: str
    """The answer, without special tokens and stop texts; of a model that writes in channels, and with tools, what is for
    the reader. Thoughts and calls are in `message`, and `special=True` gives the text as it was written."""
    tokens: list[int]
    """Its tokens, the one that ended the turn included."""
    finish_reason: str
    """`stop` (the model ended, or a stop text), `length`, `tool_calls` or `cancelled`."""
    stop: str | None
    """The stop text that ended it."""
    prompt_tokens: int
    """Tokens of the prompt."""
    cached_tokens: int
    """How many of them were not computed again."""
    seed: int
    """What makes it come out the same again."""
    logprobs: list[Logprob] | None
    """How probable each token was, where `logprobs` asked for it."""
    message: dict[str, Any] | None
    """The answer to a conversation as a message of OpenAI's API, with `tool_calls` where it has some, and with
    `reasoning_content` where thoughts were told apart from `content`."""
    timings: dict[str, float]
    """Counts and milliseconds under llama-server's names, `ttft_ms` and `latency_ms` as the caller saw them."""

    def __init__(self, **fields: Any) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, fields[name])

    @property
    def ttft_ms(self) -> float:
        """Milliseconds from the call to the first token."""
        return self.timings["ttft_ms"]

    @property
    def latency_ms(self) -> float:
        """Milliseconds from the call to the end."""
        return self.timings["latency_ms"]

    @property
    def tokens_per_sec(self) -> float:
        """Tokens per second of decoding: after the first one, until the last."""
        return self.timings["predicted_per_second"]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: a Completion does not change")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: a Completion does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, ({name: getattr(self, name) for name in self.__slots__},)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Completion):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Completion({self.text!r}, {len(self.tokens)} tokens, finish_reason={self.finish_reason!r})"


def _restore(fields: dict[str, Any]) -> Completion:
    return Completion(**fields)
