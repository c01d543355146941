"""Models by name: in the cache that huggingface_hub and llama.cpp use too."""

from __future__ import annotations

from qrun import _qrun
from qrun._errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Callable

    Path = str | os.PathLike[str]


def pull(
    name: str,
    filename: str | None = None,
    *,
    revision: str | None = None,
    token: str | None = None,
    cache_dir: Path | None = None,
    offline: bool | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> str:
    """Fetches a model where the cache does not have it, and returns its path; of several shards the first.

    `name`: `USER/REPO[:TAG]`, `hf.co/…`, `ms:…`, `ollama://…`, a URL or an alias such as `gemma-3-1b-it`. `filename` is a
    file of the repository, or a pattern: `*TAG.gguf`, `Name*TAG.gguf`, `*.gguf`. What a cut connection or Ctrl-C leaves is gone on with the next time,
    and each file is checked by its SHA-256. `progress(done, total)` hears bytes; `total` is 0 where nobody knows.

    >>> import qrun, tempfile
    >>> qrun.pull("someone/some-model", cache_dir=tempfile.mkdtemp(), offline=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    qrun.DownloadError: someone/some-model: not in the cache ...
    """
    name, options = _wanted(name, filename, revision, cache_dir)
    path = _qrun.pull(name, {**options, "token": token, "offline": offline, "progress": progress})
    if not _fits(path, filename):
        found = path.rpartition("/")[2]
        raise UsageError(f"filename: {filename!r} was read as {name}, which is {found}; give the file's own name")
    return path


def find(
    name: str,
    filename: str | None = None,
    *,
    revision: str | None = None,
    cache_dir: Path | None = None,
) -> str | None:
    """The path of a model in the cache; None where it is not there. The network is not used.

    >>> import qrun, tempfile
    >>> qrun.find("someone/some-model", cache_dir=tempfile.mkdtemp()) is None
    True
    """
    path = _qrun.find(*_wanted(name, filename, revision, cache_dir))
    return path if path is None or _fits(path, filename) else None


def models(cache_dir: Path | None = None) -> list[dict[str, Any]]:
    """The models in the cache: `name`, `file`, `commit`, `bytes`, `path`.

    >>> import qrun, tempfile
    >>> qrun.models(tempfile.mkdtemp())
    []
    """
    names = ("name", "file", "commit", "bytes", "path")
    return [dict(zip(names, row)) for row in _qrun.cached(cache_dir)]


def remove(name: str, cache_dir: Path | None = None) -> dict[str, int]:
    """Removes a model from the cache: with a tag that file, without one the repository. Returns `files` and `bytes`."""
    files, n = _qrun.remove(name, cache_dir)
    return {"files": files, "bytes": n}


def _wanted(
    name: str, filename: str | None, revision: str | None, cache_dir: Path | None
) -> tuple[str, dict[str, Any]]:
    options: dict[str, Any] = {"revision": revision, "cache_dir": cache_dir}
    if filename is None or not any(c in filename for c in "*?["):
        return name, {**options, "filename": filename}
    words = _words(filename)
    # What stands behind the last * names a tag: *Q4_K_M.gguf is REPO:Q4_K_M.
    tag = next((word for word in reversed(words[1:]) if word), "")
    if any(c in filename for c in "?[") or not all(c.isalnum() or c in "._-" for c in tag):
        raise UsageError(f"filename: expected a file of the repository, or a pattern *TAG.gguf; found {filename!r}")
    if tag and ":" in name.rpartition("/")[2].replace("hf:", ""):
        raise UsageError(f"filename: {name!r} says already which file is meant; found {filename!r} as well")
    return f"{name}:{tag}" if tag else name, options


def _words(pattern: str) -> list[str]:
    """What stands around each * of a pattern.

    >>> _words("Qwen*-Q4_K_M*.gguf"), _words("*.gguf")
    (['Qwen', 'Q4_K_M', ''], ['', ''])
    """
    stem = pattern[:-5] if pattern.lower().endswith(".gguf") else pattern
    return [word.strip("-./") for word in stem.split("*")]


def _fits(path: str, pattern: str | None) -> bool:
    """Whether a file is what a pattern means that says more than a tag; case and numbers of shards do not count.

    >>> _fits("x/snapshots/0/Qwen3-Q8_0-00001-of-00002.gguf", "qwen*Q8_0.gguf"), _fits("Llama-Q8_0.gguf", "Qwen*Q8_0.gguf")
    (True, False)
    """
    if pattern is None or "*" not in pattern:
        return True
    words = _words(pattern)
    # What is only a tag may be a folder's name as well.
    if not words[0] and len([word for word in words if word]) <= 1:
        return True
    import fnmatch
    import re

    inside = re.sub(r".*/snapshots/[^/]*/", "", path.lower())
    whole = re.sub(r"-\d{5}-of-\d{5}(?=\.gguf$)", "", inside)
    names = [inside, whole, whole.rpartition(".")[0], whole.rpartition("/")[2]]
    return any(fnmatch.fnmatchcase(name, pattern.lower()) for name in names)
