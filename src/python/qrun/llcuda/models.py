"""llcuda.models: files that are here, names that can be fetched, what fits where."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from .. import Error, Gguf
from ..llama import is_demo
from ._hub import cached, pull
from ._registry import MODEL_REGISTRY
from .quantization import GGUFQuantType
from .utils import RESERVE_GB, detect_cuda, find_gguf_models

AnyPath = Union[str, Path]


class ModelInfo:
    """What a file says of itself. llcuda guesses parameters from the width and has no metadata without another package."""

    def __init__(self, filepath: AnyPath) -> None:
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
    def from_file(cls, filepath: AnyPath) -> "ModelInfo":
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


def _infos(paths: Sequence[Path]) -> List[ModelInfo]:
    """Those that can be read."""
    infos = []
    for path in paths:
        try:
            infos.append(ModelInfo(path))
        except (Error, OSError):
            continue
    return infos


def list_models(directories: Optional[Sequence[AnyPath]] = None) -> List[Dict[str, Any]]:
    """Model files, the largest first; without folders those that `find_gguf_models` finds. Broken files are left out."""
    if directories is None:
        paths = find_gguf_models()
    else:
        paths = [path for folder in directories for path in find_gguf_models(folder)]
    return sorted((info.to_dict() for info in _infos(paths)), key=lambda found: -float(found["file_size_mb"]))


def download_model(
    repo_id: str, filename: str, output_dir: Optional[AnyPath] = None, show_progress: bool = True
) -> str:
    """Fetches a file of the hub, checks its bytes, and returns its path in the shared cache, or below `output_dir`."""
    return str(pull(f"{repo_id}:{filename}", output_dir))


def get_model_recommendations(vram_gb: float = 8.0) -> List[Dict[str, Any]]:
    """Short names whose weights and a small context fit, the largest first: `name, repo, file, size_gb, description`.

    >>> [model["name"] for model in get_model_recommendations(vram_gb=2.0)]
    ['gemma-3-1b-Q5_K_M', 'gemma-3-1b-Q4_K_M', 'tinyllama-1.1b-Q5_K_M']
    """
    found = [
        {
            "name": name,
            "repo": row["repo"],
            "file": f"*{row['tag']}*.gguf",
            "size_gb": row["size_mb"] / 1000,
            "description": row["description"],
        }
        for name, row in MODEL_REGISTRY.items()
        if row["min_vram_gb"] <= vram_gb
    ]
    return sorted(found, key=lambda model: -float(model["size_gb"]))


def print_model_catalog(vram_gb: Optional[float] = None) -> None:
    """Prints what `get_model_recommendations` finds; without `vram_gb` for the first GPU here, or 8 GB."""
    if vram_gb is None:
        gpus = detect_cuda()["gpus"]
        vram_gb = int(gpus[0]["memory"].split()[0]) / 1024 if gpus else 8.0
    print(f"Models that fit into {vram_gb:.1f} GB:")
    for model in get_model_recommendations(vram_gb):
        print(f"  {model['name']}: {model['description']}, {model['size_gb']:.1f} GB, {model['repo']}")


class ModelManager:
    """The model files of some folders and those below them."""

    def __init__(self, directories: Optional[Sequence[AnyPath]] = None) -> None:
        self.models: List[ModelInfo] = []
        if directories:
            self.scan_directories(directories)

    def scan_directories(self, directories: Sequence[AnyPath]) -> None:
        """Looks again, in these folders."""
        self.models = _infos([path for folder in directories for path in sorted(Path(folder).glob("**/*.gguf"))])

    def find_by_size(self, min_mb: float = 0, max_mb: float = float("inf")) -> List[ModelInfo]:
        """Those of a size, in MiB."""
        return [model for model in self.models if min_mb <= model.file_size_mb <= max_mb]

    def find_by_architecture(self, architecture: str) -> List[ModelInfo]:
        """Those whose architecture has this in its name."""
        return [model for model in self.models if architecture.lower() in (model.architecture or "").lower()]

    def get_best_for_vram(self, vram_gb: float) -> Optional[ModelInfo]:
        """The largest that runs on a GPU with so much memory."""
        fitting = [m for m in self.models if m.get_recommended_settings(vram_gb)["gpu_layers"] > 0]
        return max(fitting, key=lambda model: model.file_size_mb, default=None)

    def __len__(self) -> int:
        return len(self.models)

    def __iter__(self) -> Iterator[ModelInfo]:
        return iter(self.models)


def load_model_smart(
    model_name_or_path: AnyPath,
    cache_dir: Optional[AnyPath] = None,
    interactive: bool = True,
    force_download: bool = False,
) -> Optional[Path]:
    """The path of a model: of a file, or of a name, which is fetched where it is not in the cache yet.

    Asks before a download only where somebody sits at a terminal; None where the answer is no. "demo" is the model inside.
    """
    name = os.fspath(model_name_or_path)
    path = Path(name).expanduser()
    if path.is_file() or is_demo(name):
        return path
    if name.endswith(".gguf") and ":" not in name:
        raise FileNotFoundError(f"no such file: {name}")
    found = None if force_download else cached(name, cache_dir)
    if found is not None:
        return found
    if interactive and _is_terminal() and not _wanted(name):
        return None
    return pull(name, cache_dir)


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _wanted(name: str) -> bool:
    row = MODEL_REGISTRY.get(name)
    size = f" ({row['repo']}, about {row['size_mb']} MB)" if row else ""
    return input(f"Download {name}{size}? [Y/n] ").strip().lower() in ("", "y", "yes")


def list_registry_models() -> Dict[str, Dict[str, Any]]:
    """llcuda's short names: `repo, tag, size_mb, min_vram_gb, description`. `qrun models` knows more names."""
    return {name: dict(row) for name, row in MODEL_REGISTRY.items()}


def print_registry_models(vram_gb: Optional[float] = None) -> None:
    """Prints them, or those whose weights and a small context fit into `vram_gb`."""
    for name, row in MODEL_REGISTRY.items():
        if vram_gb is None or row["min_vram_gb"] <= vram_gb:
            print(f"{name}: {row['description']}, {row['size_mb']} MB, from {row['min_vram_gb']} GB, {row['repo']}")
