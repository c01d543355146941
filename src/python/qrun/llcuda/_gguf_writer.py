"""Writes a GGUF file of F32, F16 or BF16 tensors; `qrun.quantize` makes the other types of it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO, Dict, Mapping, Tuple

from .. import UsageError
from .gguf_parser import GGUF_MAGIC, GGMLType, GGUFValueType as V

ALIGNMENT = 32
"""Tensors begin at multiples of this."""

_PLAIN = {V.UINT32: "I", V.INT32: "i", V.FLOAT32: "f", V.UINT64: "Q", V.INT64: "q", V.FLOAT64: "d", V.BOOL: "?",
          V.UINT8: "B", V.INT8: "b", V.UINT16: "H", V.INT16: "h"}  # fmt: skip


def type_of(value: Any) -> V:
    """The type that a value gets where none is said.

    >>> type_of(7).name, type_of(-1).name, type_of(1.5).name, type_of("x").name, type_of([1, 2]).name
    ('UINT32', 'INT32', 'FLOAT32', 'STRING', 'ARRAY')
    """
    if isinstance(value, bool):
        return V.BOOL
    if isinstance(value, int):
        if value < 0:
            return V.INT32 if value >= -(2**31) else V.INT64
        return V.UINT32 if value < 2**32 else V.UINT64
    for kind, found in ((float, V.FLOAT32), (str, V.STRING), ((list, tuple), V.ARRAY)):
        if isinstance(value, kind):
            return found
    raise UsageError(f"metadata: expected a number, text, bool or list, found {type(value).__name__}")


def _text(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _value(value: Any, kind: V) -> bytes:
    if kind is V.STRING:
        return _text(value)
    if kind is not V.ARRAY:
        return struct.pack("<" + _PLAIN[kind], value)
    kinds = {type_of(item) for item in value} or {V.UINT32}
    # Lists have one type: whole numbers of both signs are signed, and floats win over whole numbers.
    inner = kinds.pop() if len(kinds) == 1 else V.FLOAT32 if V.FLOAT32 in kinds else V.INT32
    return struct.pack("<IQ", inner, len(value)) + b"".join(_value(item, inner) for item in value)


def _array(name: str, tensor: Any, dtype: str) -> Any:
    """A tensor as little-endian numbers: of numpy, or whatever has `detach`, `float`, `cpu`, `numpy` as torch's have."""
    import numpy

    if hasattr(tensor, "detach"):
        tensor = tensor.detach().float().cpu().numpy()
    array = numpy.ascontiguousarray(tensor, dtype=numpy.float32)
    if array.ndim == 0:
        raise UsageError(f"{name}: expected a tensor with dimensions, found a number")
    if dtype == "F16":
        return array.astype("<f2")
    if dtype == "BF16":
        bits = array.view(numpy.uint32).astype(numpy.uint64)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
        # Rounding must not make a number out of what is none.
        return numpy.where(numpy.isnan(array), ((bits >> 16) | 0x40).astype("<u2"), rounded)
    return array.astype("<f4")


def write(path: Path, metadata: Mapping[str, Tuple[Any, V]], tensors: Mapping[str, Tuple[Any, str]]) -> None:
    """Writes `metadata` (value and type) and `tensors` (array in numpy's order, and F32, F16 or BF16)."""
    # One-dimensional tensors are norms and biases, which are F32 in every file.
    arrays: Dict[str, Tuple[Any, str]] = {}
    for name, (tensor, dtype) in tensors.items():
        kept = dtype if len(tensor.shape) > 1 else "F32"
        arrays[name] = (_array(name, tensor, kept), kept)
    with open(path, "wb") as file:
        file.write(struct.pack("<IIQQ", GGUF_MAGIC, 3, len(arrays), len(metadata)))
        for key, (value, kind) in metadata.items():
            file.write(_text(key) + struct.pack("<I", kind) + _value(value, kind))
        offset = 0
        for name, (array, dtype) in arrays.items():
            shape = array.shape[::-1]
            file.write(_text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
            file.write(struct.pack("<IQ", GGMLType[dtype], offset))
            offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        for array, _ in arrays.values():
            _pad(file)
            file.write(array.tobytes())
        _pad(file)


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % ALIGNMENT))
