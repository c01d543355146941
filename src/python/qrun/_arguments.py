"""Arguments of other libraries' calls: what qrun cannot follow is refused, what changes nothing is said once."""

from __future__ import annotations

import logging
from typing import Any, Dict, Mapping, Tuple

from . import Unsupported

log = logging.getLogger("qrun")
"""Notes go to this logger: on stderr where the program configures nothing, never on stdout."""

_said: "set[str]" = set()

Refusals = Dict[str, Tuple[Tuple[Any, ...], str]]
"""Name of an argument → the values that mean nothing else than what happens anyway, and why others are refused."""


def refuse(given: Mapping[str, Any], table: Refusals) -> None:
    """Raises `qrun.Unsupported` for the first argument whose value would change the text and cannot be followed."""
    for name, (neutral, reason) in table.items():
        value = given.get(name)
        # By type too: False is 0 to Python, and a list is never a neutral value.
        if name in given and not any(
            value is n or (type(value) in (type(n), int, float) and value == n) for n in neutral
        ):
            shown = repr(value)
            raise Unsupported(f"{name}={shown if len(shown) <= 60 else shown[:57] + '...'}: {reason}")


def note(name: str, why: str, verbose: bool = True) -> None:
    """Says, once in a process and only under `verbose`, that an argument has no effect."""
    if verbose and name not in _said:
        _said.add(name)
        log.warning("qrun: %s has no effect: %s", name, why)
