"""Models by name, where this build of qrun can fetch them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, List, Optional

import qrun


def _call(name: str) -> Any:
    found = getattr(qrun, name, None)
    if found is None:
        raise qrun.Unsupported(f"qrun.{name}: this build of qrun fetches no models: give the path of a file")
    return found


def _where(cache_dir: Optional["os.PathLike[str] | str"]) -> "dict[str, str]":
    return {} if cache_dir is None else {"cache_dir": os.fspath(cache_dir)}


def pull(name: str, cache_dir: Optional["os.PathLike[str] | str"] = None) -> Path:
    """The file of a name, which is fetched where it is not in the cache."""
    return Path(_call("pull")(name, **_where(cache_dir)))


def cached(name: str, cache_dir: Optional["os.PathLike[str] | str"] = None) -> Optional[Path]:
    """The file of a name if it is in the cache; the network is not used."""
    found = _call("find")(name, **_where(cache_dir))
    return None if found is None else Path(found)


def files() -> List[Path]:
    """Model files in the cache."""
    listed = getattr(qrun, "models", None)
    return [] if listed is None else [Path(model["path"]) for model in listed()]
