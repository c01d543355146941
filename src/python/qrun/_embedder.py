"""Texts to vectors."""

from __future__ import annotations

from qrun import _qrun
from qrun._errors import DeviceWarning
from qrun._opened import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Callable, Sequence

    Vector = list[float]


class Embedder(Opened):
    """A model that makes vectors of texts; any number of threads may use it, one call after the other.

    `model` is the path of a GGUF file, the name of a model, or None for the small demo model inside.

    * `pooling`: how the hidden states of a text become one vector: "mean", "cls", "last", or "none" for a vector of each
      token; None: as the file says.
    * `device`: as of `qrun.Engine`.
    * `n_ctx`: most tokens of a text; 0: as many as the model was trained for and memory holds.
    * `n_threads`, `n_ubatch`, `cache_type_k`, `cache_type_v`, `exact`, `offline`, `progress`: as of `qrun.Engine`.

    A vector does not depend on what else is embedded with it, nor on the number of threads.

    >>> import qrun
    >>> embedder = qrun.Embedder(pooling="mean")
    >>> vector = embedder.embed("What is a page table?")
    >>> len(vector) == embedder.width, abs(sum(x * x for x in vector) - 1) < 1e-5
    (True, True)
    >>> embedder.embed(["What is a page table?", "Hello"])[0] == vector
    True
    """

    __module__ = "qrun"

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        pooling: str | None = None,
        device: str = "auto",
        n_ctx: int = 0,
        n_threads: int = 0,
        n_ubatch: int = 512,
        cache_type_k: str | None = None,
        cache_type_v: str | None = None,
        exact: bool = False,
        offline: bool | None = None,
        progress: Callable[[int, int], object] | None = None,
        **unknown: Any,
    ) -> None:
        options = {
            "pooling": pooling,
            "device": device,
            "n_ctx": n_ctx,
            "n_threads": n_threads,
            "n_ubatch": n_ubatch,
            "cache_type_k": cache_type_k,
            "cache_type_v": cache_type_v,
            "exact": exact,
            "progress": progress,
        }
        if unknown:
            from qrun._sampling import check_names

            check_names(unknown, [*options, "offline"])
        self._path = model
        if isinstance(model, str) and _qrun.is_name(model):
            from qrun._models import pull

            model = pull(model, offline=offline, progress=progress)
        self._native = _qrun.Embedder(model, options)
        self._warn()

    def _warn(self) -> None:
        for text in self._native.warnings():
            import warnings

            warnings.warn(text, DeviceWarning, stacklevel=3)

    @property
    def width(self) -> int:
        """Elements of a vector."""
        return self._native.width

    @property
    def pooling(self) -> str:
        """How the hidden states of a text become one vector: "none", "mean", "cls" or "last"."""
        return self._native.pooling

    @property
    def n_ctx(self) -> int:
        """Most tokens of a text."""
        return self._native.n_ctx

    def info(self) -> dict[str, Any]:
        """What the model is and where it runs."""
        import json

        found: dict[str, Any] = json.loads(self._native.info())
        return found

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The tokens of a text, as `embed` takes them; the arguments are those of `Engine.tokenize`.

        >>> import qrun
        >>> len(qrun.Embedder(pooling="last").tokenize("Hello")) > 1
        True
        """
        return self._native.tokenize([text], add_special, parse_special)[0]

    def embed(self, texts: str | Sequence[str], *, normalize: bool = True, truncate: bool = False) -> list[Any]:
        """The vector of a text, or a list with the vector of each; with pooling "none" lists of the vectors of its tokens.

        `normalize`: their Euclidean length is 1. `truncate`: of a text that is too long the beginning is taken, and the mark
        that the model puts at the end; otherwise it is an error.

        >>> import qrun
        >>> embedder = qrun.Embedder(pooling="none")
        >>> len(embedder.embed("Hello")) == len(embedder.tokenize("Hello"))
        True
        """
        vectors = self._vectors(self._tokens(texts, truncate), normalize)
        self._warn()
        return vectors[0] if isinstance(texts, str) else vectors

    def _tokens(self, texts: str | Sequence[str], truncate: bool) -> list[list[int]]:
        if isinstance(texts, (bytes, bytearray, dict)) or not hasattr(texts, "__iter__"):
            raise TypeError(f"texts: expected a text or a list of texts, found {type(texts).__name__}")
        listed = [texts] if isinstance(texts, str) else list(texts)
        for text in listed:
            if not isinstance(text, str):
                raise TypeError(f"texts: expected a text or a list of texts, found {text!r} in it")
        tokens = self._native.tokenize(listed, True, True)
        most = self.n_ctx
        if truncate and any(len(each) > most for each in tokens):
            # With pooling "last" the vector is that of the mark at the end.
            end = self._native.tokenize([""], True, True)[0][-1:]
            tokens = [_cut(each, most, end) for each in tokens]
        return tokens

    def _vectors(self, tokens: list[list[int]], normalize: bool) -> list[Any]:
        found: list[Any] = [memoryview(each).cast("f").tolist() for each in self._native.embed(tokens, normalize)]
        if self.pooling == "none":
            n = self.width
            found = [[each[at : at + n] for at in range(0, len(each), n)] for each in found]
        return found

    def close(self) -> None:
        """Frees the memory. Without this it is done when the embedder is dropped."""
        self._native.close()

    def __repr__(self) -> str:
        what = "the demo model" if self._path is None else repr(str(self._path))
        return f"Embedder({what}, pooling={self.pooling!r}, {self.width} elements)"


def _cut(tokens: list[int], most: int, end: list[int]) -> list[int]:
    """The first `most` tokens; `end` stays the last of them where it is the last of all.

    >>> _cut([1, 5, 6, 7, 2], 4, [2]), _cut([1, 5, 6, 7], 3, [1]), _cut([1, 5], 3, [5])
    ([1, 5, 6, 2], [1, 5, 6], [1, 5])
    """
    if len(tokens) <= most:
        return tokens
    kept = end if tokens[-1:] == end else []
    return tokens[: most - len(kept)] + kept
