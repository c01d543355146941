"""An answer that comes piece by piece."""

from __future__ import annotations

from qrun._completion import Completion, Logprob

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from types import TracebackType
    from typing import Any, Callable

    from qrun._qrun import Answer, Model


def completion(model: Model, answer: Answer, keywords: dict[str, Any]) -> Completion:
    """What a finished answer has to say."""
    fields = answer.reply()
    logprobs = fields["logprobs"]
    fields["logprobs"] = _logprobs(model, fields["tokens"], logprobs) if "logprobs" in keywords else None
    if fields["message"] is not None:
        import json

        fields["message"] = json.loads(fields["message"])
        if fields["message"].get("tool_calls") and fields["finish_reason"] == "stop":
            fields["finish_reason"] = "tool_calls"
        if not keywords.get("special"):
            fields["text"] = fields["message"]["content"]
    return Completion(**fields)


def _logprobs(model: Model, tokens: list[int], found: list[tuple[float, list[tuple[int, float]]]]) -> list[Logprob]:
    rows = zip(tokens, model.pieces(tokens), found)
    return [Logprob(token, piece, logprob, top) for token, piece, (logprob, top) in rows]


async def end_of(answer: Answer) -> None:
    """Waits for the end of an answer without a thread."""
    await _next(answer, True)


async def _next(answer: Answer, only_end: bool) -> str | None:
    """The next piece; None at the end."""
    import asyncio

    loop = asyncio.get_running_loop()
    while True:
        future = loop.create_future()

        def wake(future: asyncio.Future[None] = future) -> None:
            loop.call_soon_threadsafe(_done, future)

        piece = answer.poll(wake, only_end)
        if piece is not False:
            return piece
        try:
            await future
        except asyncio.CancelledError:
            answer.cancel()
            raise


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Stream:
    """The pieces of an answer as they come: `for`, `async for`, and `with`, which ends it at the end of the block.

    A stream that is dropped ends its answer too, so its place is free for others.

    >>> import qrun
    >>> engine = qrun.Engine()
    >>> with engine.stream("What is a page table?", max_tokens=8, temperature=0) as stream:
    ...     text = "".join(stream)
    >>> text == stream.completion.text
    True
    """

    __module__ = "qrun"

    def __init__(
        self,
        model: Model,
        answer: Answer,
        keywords: dict[str, Any],
        ended: Callable[[Answer, dict[str, Any]], Completion],
    ) -> None:
        self._model = model
        self._answer = answer
        self._keywords = keywords
        # The engine's own method: it lives as long as its streams.
        self._ended = ended
        self._completion: Completion | None = None
        # Tells what of each piece is for the reader; None: all of it.
        self._content = None if keywords.get("special") else answer.content()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        while self._completion is None:
            text = self._text(self._answer.next())
            if text:
                return text
        raise StopIteration

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        while self._completion is None:
            text = self._text(await _next(self._answer, False))
            if text:
                return text
        raise StopAsyncIteration

    def _text(self, piece: str | None) -> str:
        """What of a piece is for the reader; at the end, None, what was held back."""
        if piece is None:
            self._end()
            return "" if self._content is None else self._content.finish()
        return piece if self._content is None else self._content.push(piece)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Ends the answer; what it has so far is its completion."""
        self._answer.cancel()

    def _end(self) -> Completion:
        if self._completion is None:
            self._completion = self._ended(self._answer, self._keywords)
        return self._completion

    @property
    def completion(self) -> Completion:
        """The whole answer; waits for its end."""
        if self._completion is None:
            self._answer.wait()
        return self._end()

    @property
    def tokens(self) -> list[int]:
        """The tokens so far."""
        return self._answer.tokens

    @property
    def logprobs(self) -> list[Logprob] | None:
        """How probable they were, where `logprobs` asked for it."""
        if "logprobs" not in self._keywords:
            return None
        return _logprobs(self._model, self._answer.tokens, self._answer.logprobs)

    @property
    def prompt_progress(self) -> tuple[int, int]:
        """Prompt tokens that are computed, and all of them; as far as pieces were read."""
        return self._answer.prompt_progress
