"""Modules whose names qrun does not have: each name raises `qrun.Unsupported` with the reason when it is asked for."""

from __future__ import annotations

from typing import NoReturn, Sequence

from .. import Unsupported


def refuse(module: str, names: Sequence[str], name: str, reason: str) -> NoReturn:
    """For a module's `__getattr__`: refuses the names that llcuda has there; others are as unknown as anywhere."""
    if name in names:
        raise Unsupported(f"{module}.{name}: {reason}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
