"""A conversation, turn after turn."""

from __future__ import annotations

from qrun._completion import Completion
from qrun._errors import UsageError
from qrun._sampling import canonical

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Iterator, Protocol

    from qrun._qrun import Model
    from qrun._stream import Stream

    class Engine(Protocol):
        """What a conversation asks of `qrun.Engine`."""

        _native: Model

        def generate(self, prompt: list[dict[str, Any]], **sampling: Any) -> Completion: ...
        def stream(self, prompt: list[dict[str, Any]], **sampling: Any) -> Stream: ...
        def apply_chat_template(
            self, messages: list[dict[str, Any]], *, tokenize: bool, add_generation_prompt: bool
        ) -> str | list[int]: ...
        def _save(self, path: str | os.PathLike[str], tokens: list[int], notes: dict[str, Any]) -> int: ...


class Chat:
    """A conversation. What was said before is in the cache: a turn costs only what is new.

    >>> import qrun
    >>> chat = qrun.Engine().chat("You are brief.", max_tokens=4, temperature=0)
    >>> answer = chat.send("What is a page table?")
    >>> [message["role"] for message in chat.messages]
    ['system', 'user', 'assistant']
    >>> chat.messages[-1]["content"] == answer.text
    True
    """

    __module__ = "qrun"

    messages: list[dict[str, Any]]
    """What was said so far, as OpenAI's API has it. It may be changed between turns."""

    def __init__(self, engine: Engine, system: str | None = None, **sampling: Any) -> None:
        canonical(sampling)  # an unknown name is told here, not at the first message
        self._engine = engine
        self._sampling = sampling
        self.messages = [] if system is None else [{"role": "system", "content": system}]
        self._last: Completion | Stream | None = None

    @property
    def last(self) -> Completion | None:
        """The last answer. Of one that was left early its end may have to be waited for: that of the running step."""
        if self._last is not None and not isinstance(self._last, Completion):
            self._last = self._last.completion
        return self._last

    def send(self, text: str, **sampling: Any) -> Completion:
        """Says something and waits for the answer. Keywords hold for this turn."""
        return self._answer(text, sampling, self._engine.generate)

    def _answer(self, text: str, sampling: dict[str, Any], ask: Any) -> Completion:
        asked = [*self.messages, {"role": "user", "content": text}]
        done: Completion = ask(asked, **{**self._sampling, **sampling})
        self._take(asked, done)
        return done

    def _take(self, asked: list[dict[str, Any]], done: Completion) -> None:
        self._last = done
        # A message that the model never saw is not part of the conversation.
        if done.tokens or done.finish_reason != "cancelled":
            self.messages = [*asked, done.message or {"role": "assistant", "content": done.text}]

    def stream(self, text: str, **sampling: Any) -> Iterator[str]:
        """Says something and gives the answer piece by piece; one that is not read to its end counts as far as it was read.

        >>> import qrun
        >>> chat = qrun.Engine().chat(max_tokens=4, temperature=0)
        >>> "".join(chat.stream("What is a page table?")) == chat.messages[-1]["content"]
        True
        """
        asked = [*self.messages, {"role": "user", "content": text}]
        stream: Stream = self._engine.stream(asked, **{**self._sampling, **sampling})
        return self._pieces(asked, stream)

    def _pieces(self, asked: list[dict[str, Any]], stream: Stream) -> Iterator[str]:
        text = ""
        try:
            for piece in stream:
                text += piece
                yield piece
        except BaseException as error:
            stream.cancel()
            # Left early, by Ctrl-C too: what was read is kept without a wait for the step that runs.
            if not isinstance(error, Exception) and stream.tokens:
                self.messages = [*asked, {"role": "assistant", "content": text}]
                self._last = stream
            raise
        self._take(asked, stream.completion)

    def regenerate(self, **sampling: Any) -> Completion:
        """Answers the last message once more, in place of the last answer.

        >>> import qrun
        >>> chat = qrun.Engine().chat(max_tokens=4, temperature=0)
        >>> first = chat.send("What is a page table?").text
        >>> chat.regenerate().text == first, len(chat.messages)
        (True, 2)
        """
        kept = list(self.messages)
        text = self._undone()
        try:
            return self.send(text, **sampling)
        except BaseException:
            self.messages = kept
            raise

    def undo(self) -> str:
        """Takes the last message and its answer back; returns the message.

        >>> import qrun
        >>> chat = qrun.Engine().chat(max_tokens=4)
        >>> done = chat.send("What is a page table?")
        >>> chat.undo(), chat.messages
        ('What is a page table?', [])
        """
        return self._undone()

    def _undone(self) -> str:
        at = max((i for i, message in enumerate(self.messages) if message["role"] == "user"), default=None)
        if at is None:
            raise UsageError("there is no message to go back to: nothing was sent")
        text: str = self.messages[at]["content"]
        self.messages = self.messages[:at]
        return text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the conversation into a file, with what was computed of it; the program's `/load` reads it too.

        An existing file is replaced only if it is a session.

        >>> import qrun, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "session")
        >>> chat = qrun.Engine().chat(max_tokens=4)
        >>> done = chat.send("What is a page table?")
        >>> chat.save(path)
        >>> again = qrun.Engine().chat(max_tokens=4)
        >>> again.load(path)
        >>> again.messages == chat.messages, again.send("And then?").cached_tokens > 0
        (True, True)
        """
        system = [message["content"] for message in self.messages[:1] if message["role"] == "system"]
        notes = {"messages": self.messages, "system": system[0] if system else None, "pending": ""}
        tokens = self._engine.apply_chat_template(self.messages, tokenize=True, add_generation_prompt=False)
        self._engine._save(path, tokens, notes)  # type: ignore[arg-type]

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on with a conversation that was saved. What another model has computed of it is computed again."""
        import json

        _, notes, _ = self._engine._native.load(path)
        found = json.loads(notes).get("messages")
        if not isinstance(found, list):
            raise UsageError(f"{path}: there is no conversation in this session; Engine.load reads its tokens")
        self.messages = found
        self._last = None

    def __repr__(self) -> str:
        return f"Chat({len(self.messages)} messages)"
