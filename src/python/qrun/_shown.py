"""What of an answer is for the reader, while it comes: a stream gives what `Completion.text` begins with.

The engine takes a finished answer apart into thoughts, calls of tools and what is said. A stream needs less: what might not
be for the reader is held back, and the finished answer settles it.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

CHANNEL, MESSAGE, START, END = "<|channel|>", "<|message|>", "<|start|>", "<|end|>"
"""The marks of channels."""

BEGINS = (CHANNEL, START, MESSAGE, "<|constrain|>", "to=")
"""What an answer in channels begins with."""

ENDS = (END, START, CHANNEL)
"""What ends a message."""

THOUGHTS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
)
"""How thoughts begin and end; those of a template are the first whose marks it has."""

CALLS = ("<tool_call>", "<|python_tag|>", "[TOOL_CALLS]")
"""What calls of tools begin with where it is not their object alone."""


def of(template: str, prompt: str, tools: bool) -> Callable[[str], str] | None:
    """For the pieces of an answer what is shown at each; None: all of them are for the reader.

    `prompt` is the conversation in the template's form; `tools`: whether there are any.
    """
    end = prompt.rstrip()
    if all(mark in template for mark in (CHANNEL, MESSAGE, START)):
        return _Channels(end.endswith(f"{CHANNEL}analysis{MESSAGE}")).show
    if not tools:
        return None
    marks = next((pair for pair in THOUGHTS if all(mark in template for mark in pair)), None)
    if marks is not None and end.endswith(marks[1]):
        # The prompt has closed the thought: there will be none.
        marks = None
    return _Tagged(marks, marks is not None and end.endswith(marks[0])).show


def _plain(text: str, marks: tuple[str, ...]) -> int:
    """How much of a text is before what may be the beginning of a mark at its end.

    >>> _plain("a < b <|en", ENDS), _plain("a < b", ENDS)
    (6, 5)
    """
    at = max(text.rfind(mark[0]) for mark in marks)
    return at if at >= 0 and any(mark.startswith(text[at:]) for mark in marks) else len(text)


class _Channels:
    """Messages in channels, those of gpt-oss: what is in `final` is for the reader.

    >>> show = of(CHANNEL + MESSAGE + START, "", False)
    >>> [show(piece) for piece in ("<|chan", "nel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>fin")]
    ['', '']
    >>> [show(piece) for piece in ("al<|message|>Y", "es <|e", "m", "<|end|>")]
    ['Y', 'es ', '<|em', '']
    """

    def __init__(self, thinking: bool) -> None:
        self._held = ""
        # In a message: whether it is for the reader; None: before one.
        self._read: bool | None = False if thinking else None
        self._begun = thinking

    def show(self, piece: str) -> str:
        """What is shown at a piece."""
        self._held += piece
        shown = ""
        while self._read is not None or self._header():
            text, ended = self._body()
            shown += text
            if not ended:
                break
        return shown

    def _header(self) -> bool:
        """Whether a message begins here."""
        if not self._begun:
            text = self._held.lstrip()
            if not text.startswith(BEGINS):
                if any(begin.startswith(text) for begin in BEGINS):
                    return False
                # A model that does without.
                self._begun = self._read = True
                return True
            self._begun = True
        header, mark, rest = self._held.partition(MESSAGE)
        if not mark:
            return False
        name = re.search(r"<\|channel\|>([^\s<]*)", header)
        # What goes to somebody else is a call.
        self._read = (name is None or name[1] in ("", "final")) and "to=" not in header
        self._held = rest
        return True

    def _body(self) -> tuple[str, bool]:
        """What a message says for the reader, and whether it ends."""
        end = re.search("|".join(map(re.escape, ENDS)), self._held)
        at = end.start() if end else _plain(self._held, ENDS)
        text = self._held[:at] if self._read else ""
        if end is not None:
            self._read = None
            at = end.end() if end[0] == END else at
        self._held = self._held[at:]
        return text, end is not None


class _Tagged:
    """One text, with marks around thoughts and calls: it is shown from behind a thought up to where a call may begin.

    >>> show = of("<think></think>", "", True)
    >>> [show(piece) for piece in ("<thi", "nk>Hm</think>", "\\n\\nI ask ", "now: <", "b> ", "<tool_call>", "{}")]
    ['', '', 'I ask', ' now:', ' <b>', '', '']
    """

    def __init__(self, thoughts: tuple[str, str] | None, thinking: bool) -> None:
        # Those that may still begin, or have not ended.
        self._thoughts = thoughts
        self._thinking = thinking
        self._held = ""
        # Nothing was shown yet.
        self._fresh = True
        # Behind a thought, whose white space is not shown.
        self._gap = False
        # The rest may be calls.
        self._over = False

    def show(self, piece: str) -> str:
        """What is shown at a piece."""
        if self._over:
            return ""
        self._held += piece
        if self._fresh and not self._begins():
            return ""
        self._fresh = False
        calls = [at for at in map(self._held.find, CALLS) if at >= 0]
        self._over = bool(calls)
        # White space before a call is not shown.
        text = self._held[: min(calls, default=_plain(self._held, CALLS))].rstrip()
        self._held = self._held[len(text) :]
        return text

    def _begins(self) -> bool:
        """Whether what is said begins here: no thought, and no object, which may be a call."""
        text = self._held.lstrip()
        if self._thoughts is not None:
            begin, end = self._thoughts
            if not self._thinking and begin.startswith(text):
                return False
            if self._thinking or text.startswith(begin):
                self._thinking = True
                _, mark, rest = text.partition(end)
                if not mark:
                    return False
                self._gap, text = True, rest.lstrip()
            self._thoughts = None
        if self._gap:
            self._held = text
        self._over = text.startswith("{")
        return bool(text) and not self._over
