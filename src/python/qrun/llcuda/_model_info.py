"""What a GGUF file says of itself: its type, its sizes, what fits where."""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import Any, Dict, Optional, Union

from .. import Gguf

RESERVE_GB = 0.6
"""What the driver, activations and a small context take beside the weights."""


class GGUFQuantType(Enum):
    """Types of files that `convert_to_gguf` writes; the numbers are llama.cpp's `general.file_type`."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q8_0 = 7
    Q5_0 = 8
    Q5_1 = 9
    Q4_K_S = 14
    Q4_K_M = 15
    Q5_K_S = 16
    Q5_K_M = 17
    Q6_K = 18
    BF16 = 32


class ModelInfo:
    """What a file says of itself. llcuda guesses parameters from the width and has no metadata without another package."""

    def __init__(self, filepath: Union[str, Path]) -> None:
        self.filepath = Path(filepath)
        self.metadata: Dict[str, Any] = {}
        self.architecture: Optional[str] = None
        self.parameter_count: Optional[int] = None
        self.context_length: Optional[int] = None
        self.embedding_length: Optional[int] = None
        self.quantization: Optional[str] = None
        self.file_size_mb = 0.0
        self._kv_bytes_per_token = 0
        if self.filepath.exists():
            self.file_size_mb = self.filepath.stat().st_size / 2**20
            self._read()

    def _read(self) -> None:
        file = Gguf(self.filepath)
        self.metadata = dict(file.metadata)
        self.architecture = self.metadata.get("general.architecture")
        self.parameter_count = sum(math.prod(tensor.shape) for tensor in file.tensors)
        self.context_length = self._of("context_length")
        self.embedding_length = self._of("embedding_length")
        numbers = {kind.value: kind.name for kind in GGUFQuantType}
        self.quantization = numbers.get(self.metadata.get("general.file_type", -1), "unknown")
        self._kv_bytes_per_token = self._kv()

    def _of(self, key: str) -> Optional[int]:
        """A number of the architecture; the largest where layers differ."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, (list, tuple)):
            return max((int(v) for v in value), default=None)
        return None if value is None else int(value)

    def _kv(self) -> int:
        """Bytes of an f16 cache for a token in all layers; a sliding window takes less."""
        layers, heads, width = (
            self._of("block_count") or 0,
            self._of("attention.head_count") or 1,
            self.embedding_length or 0,
        )
        shared = self._of("attention.head_count_kv") or heads
        key = self._of("attention.key_length") or width // heads
        value = self._of("attention.value_length") or width // heads
        return layers * shared * (key + value) * 2

    def get_recommended_settings(self, vram_gb: float = 8.0) -> Dict[str, Any]:
        """`gpu_layers, ctx_size, batch_size, ubatch_size, recommended_vram_gb, min_vram_gb`, from bytes: the weights, the
        cache of a token, and what the driver and activations take. A model that does not fit runs on the CPU whole."""
        weights, trained = self.file_size_mb / 1024, self.context_length or 4096
        room = (vram_gb - weights - RESERVE_GB) * 2**30
        per_token = max(self._kv_bytes_per_token, 1)
        fits = int(room // per_token) // 256 * 256
        on_gpu = fits >= min(512, trained)
        return {
            "gpu_layers": 99 if on_gpu else 0,
            "ctx_size": min(trained, fits) if on_gpu else min(trained, 4096),
            "batch_size": 2048,
            "ubatch_size": 512,
            "recommended_vram_gb": weights + RESERVE_GB + trained * per_token / 2**30,
            "min_vram_gb": weights + RESERVE_GB + min(512, trained) * per_token / 2**30,
        }

    @classmethod
    def from_file(cls, filepath: Union[str, Path]) -> "ModelInfo":
        """The same as the constructor."""
        return cls(filepath)

    def to_dict(self) -> Dict[str, Any]:
        """All of it."""
        names = (
            "file_size_mb architecture parameter_count context_length embedding_length quantization metadata".split()
        )
        found = {"filepath": str(self.filepath), "filename": self.filepath.name}
        return {**found, **{name: getattr(self, name) for name in names}}

    def __repr__(self) -> str:
        return f"ModelInfo(file={self.filepath.name!r}, arch={self.architecture!r}, size={self.file_size_mb:.1f} MiB)"
