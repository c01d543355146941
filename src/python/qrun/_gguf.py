"""Model files: what they say of themselves, and their tensors."""

from __future__ import annotations

from qrun import _qrun

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    import numpy
    import numpy.typing


class TensorInfo:
    """A row of a file's list of tensors."""

    __module__ = "qrun"
    __slots__ = ("name", "type", "shape", "nbytes")

    name: str
    """Its name, such as `blk.0.attn_q.weight`."""
    type: str
    """The format of its weights, such as `Q4_K`."""
    shape: tuple[int, ...]
    """Rows first, as numpy has it; a file has it the other way round."""
    nbytes: int
    """Bytes in the file."""

    def __init__(self, name: str, type: str, shape: tuple[int, ...], nbytes: int) -> None:
        self.name = name
        self.type = type
        self.shape = shape
        self.nbytes = nbytes

    def __repr__(self) -> str:
        return f"TensorInfo({self.name!r}, {self.type!r}, {self.shape}, {self.nbytes} bytes)"


class Gguf:
    """A model file that is open: every value is checked, all formats are known. Nothing is loaded before it is asked for.

    `path` is a GGUF file, of a sharded model the first one, or None for the demo model.

    >>> import qrun
    >>> file = qrun.Gguf()
    >>> file.metadata["general.architecture"]
    'gemma3'
    >>> file.tensors[0].name in file
    True
    """

    __module__ = "qrun"

    path: str
    """The file as it was named."""
    version: int
    """Version of the format: 2 or 3."""
    file_bytes: int
    """Bytes of all its shards."""
    file_type: str | None
    """The mix of formats, such as `Q4_K_M`, where the file says so."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._file = _qrun.File(path)
        self.path = "the embedded model" if path is None else str(path)
        self.version = self._file.version
        self.file_bytes = self._file.file_bytes
        self.file_type = self._file.file_type
        self._metadata: dict[str, Any] | None = None
        self._tensors: dict[str, TensorInfo] | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """All that it says of itself; vocabularies are long lists."""
        if self._metadata is None:
            self._metadata = self._file.metadata()
        return self._metadata

    def _directory(self) -> dict[str, TensorInfo]:
        if self._tensors is None:
            rows = self._file.tensors()
            self._tensors = {name: TensorInfo(name, type, tuple(shape), n) for name, type, shape, n in rows}
        return self._tensors

    @property
    def tensors(self) -> list[TensorInfo]:
        """Its tensors, in the order of the file."""
        return list(self._directory().values())

    def __contains__(self, name: object) -> bool:
        return name in self._directory()

    def __len__(self) -> int:
        return len(self._directory())

    def tensor(self, name: str) -> numpy.typing.NDArray[numpy.float32]:
        """The weights of a tensor as float32, whatever their format. Needs numpy.

        >>> import qrun
        >>> file = qrun.Gguf()
        >>> weights = file.tensor("output_norm.weight")
        >>> weights.dtype.name, weights.shape == file.tensors[[t.name for t in file.tensors].index("output_norm.weight")].shape
        ('float32', True)
        """
        import numpy

        found = self._directory().get(name)
        floats = numpy.frombuffer(self._file.floats(name), dtype=numpy.float32)
        return floats.reshape(found.shape if found else -1)

    def data(self, name: str) -> bytes:
        """The bytes of a tensor, as they lie in the file."""
        return self._file.data(name)

    def __repr__(self) -> str:
        return f"Gguf({self.path!r}, {len(self)} tensors)"
