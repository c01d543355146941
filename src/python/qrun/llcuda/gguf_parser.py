"""llcuda.gguf_parser: what is in a GGUF file, by qrun's own reader, which checks every length before it is believed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Optional, Type, Union

from .. import Gguf

GGUF_MAGIC = 0x46554747
"""The first four bytes of a file."""


class GGUFValueType(IntEnum):
    """Types of metadata."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


class GGMLType(IntEnum):
    """Types of tensors, by ggml's numbers."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42


@dataclass
class GGUFTensorInfo:
    """A tensor of a file; `shape` in ggml's order, the fastest dimension first. `get_tensor_data` gives its bytes."""

    name: str
    n_dims: int
    shape: List[int]
    ggml_type: GGMLType
    numel: int
    nbytes: int

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"GGUFTensorInfo(name={self.name!r}, shape=[{shape}], type={self.ggml_type.name})"


class GGUFReader:
    """A file: `metadata` by key, `tensors` by name. A tensor is read when its bytes are asked for."""

    GGUF_MAGIC = GGUF_MAGIC

    def __init__(self, file_path: Union[str, Path]) -> None:
        self.file_path = Path(file_path)
        self._file = Gguf(file_path)
        self.version = self._file.version
        self.metadata: Dict[str, Any] = dict(self._file.metadata)
        self.tensors: Dict[str, GGUFTensorInfo] = {}
        for t in self._file.tensors:
            shape = list(reversed(t.shape))
            self.tensors[t.name] = GGUFTensorInfo(
                t.name, len(shape), shape, GGMLType[t.type], math.prod(shape), t.nbytes
            )

    @property
    def fields(self) -> Dict[str, Any]:
        """The same as `metadata`."""
        return self.metadata

    @property
    def tensor_count(self) -> int:
        """How many tensors there are."""
        return len(self.tensors)

    def get_tensor_data(self, tensor_name: str) -> memoryview:
        """The bytes of a tensor as they lie in the file; KeyError where there is none of this name."""
        return memoryview(self._file.data(self.tensors[tensor_name].name))

    def get_metadata_value(self, key: str, default: Any = None) -> Any:
        """A value of the metadata."""
        return self.metadata.get(key, default)

    def list_tensors(self) -> List[str]:
        """All names."""
        return list(self.tensors)

    def close(self) -> None:
        """Nothing is held open that had to be closed."""

    def __enter__(self) -> "GGUFReader":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"GGUFReader({str(self.file_path)!r}, {len(self.metadata)} keys, {len(self.tensors)} tensors)"


def inspect_gguf(file_path: Union[str, Path]) -> None:
    """Prints metadata, types by number and bytes, and the first tensors."""
    with GGUFReader(file_path) as reader:
        print(reader.file_path)
        for key, value in reader.metadata.items():
            shown = str(value).replace("\n", "\\n")
            print(f"  {key}: {shown if len(shown) <= 100 else shown[:97] + '...'}")
        by_type: Dict[str, List[int]] = {}
        for tensor in reader.tensors.values():
            by_type.setdefault(tensor.ggml_type.name, []).append(tensor.nbytes)
        print(f"{len(reader.tensors)} tensors")
        for name, sizes in sorted(by_type.items()):
            print(f"  {name}: {len(sizes)}, {sum(sizes) / 2**20:.1f} MiB")
        for tensor in list(reader.tensors.values())[:10]:
            print(f"  {tensor.name}: {tensor.shape} {tensor.ggml_type.name}, {tensor.nbytes / 2**20:.2f} MiB")
