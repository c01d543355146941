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
    file of the repository, or a pattern `*TAG.gguf`. What a cut connection or Ctrl-C leaves is gone on with the next time,
    and each file is checked by its SHA-256. `progress(done, total)` hears bytes; `total` is 0 where nobody knows.

    >>> import qrun, tempfile
    >>> qrun.pull("someone/some-model", cache_dir=tempfile.mkdtemp(), offline=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    qrun.DownloadError: someone/some-model: not in the cache ...
    """
    name, options = _wanted(name, filename, revision, cache_dir)
    return _qrun.pull(name, {**options, "token": token, "offline": offline, "progress": progress})


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
    return _qrun.find(*_wanted(name, filename, revision, cache_dir))


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
    if filename is not None and any(c in filename for c in "*?["):
        # A pattern names a tag: *Q4_K_M.gguf is REPO:Q4_K_M.
        tag = filename[:-5] if filename.lower().endswith(".gguf") else filename
        tag = tag.strip("*").strip("-.")
        if not tag or any(c in tag for c in "*?[/"):
            raise UsageError(f"filename: expected a file of the repository, or a pattern *TAG.gguf; found {filename!r}")
        return f"{name}:{tag}", options
    return name, {**options, "filename": filename}
