"""llcuda.models: files that are here, names that can be fetched, what fits where."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from .. import Error
from ..llama import is_demo
from ._hub import cached, pull
from ._model_info import ModelInfo as ModelInfo
from ._registry import MODEL_REGISTRY
from .utils import detect_cuda, find_gguf_models

AnyPath = Union[str, Path]


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
