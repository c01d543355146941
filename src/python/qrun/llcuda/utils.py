"""llcuda.utils: what computes here, which files there are, what fits."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from .. import Error, Gguf, __version__, doctor
from .._arguments import log
from ._hub import files
from ._model_info import RESERVE_GB, ModelInfo

LEAST_CAPABILITY = 7.5
"""The oldest cards that qrun has kernels for: T4, RTX 20."""


def detect_cuda() -> Dict[str, Any]:
    """GPUs as the driver tells them: `available`, `version` (of CUDA in the driver), and `gpus`.

    Each has `name, memory, driver_version, compute_capability`. Nothing is started for it.

    >>> sorted(detect_cuda())
    ['available', 'gpus', 'version']
    """
    facts = doctor()
    gpus = [
        {
            "name": gpu["name"],
            "memory": f"{gpu['memory'] // 2**20} MiB",
            "driver_version": _driver_version() or "unknown",
            "compute_capability": gpu["compute_capability"],
        }
        for gpu in facts["gpus"]
    ]
    return {"available": bool(gpus), "version": facts["driver_cuda"] if gpus else None, "gpus": gpus}


def _driver_version() -> Optional[str]:
    """NVIDIA's number of the driver, as the kernel module tells it on Linux."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return None
    return next((word for word in words if word.count(".") >= 1 and word.replace(".", "").isdigit()), None)


def check_cuda_available() -> bool:
    """Whether there is a GPU."""
    return bool(detect_cuda()["available"])


def get_cuda_device_info() -> Optional[Dict[str, Any]]:
    """`cuda_version` and `gpus`, or None without a GPU."""
    found = detect_cuda()
    return {"cuda_version": found["version"], "gpus": found["gpus"]} if found["available"] else None


def check_gpu_compatibility(min_compute_cap: float = 5.0) -> Dict[str, Any]:
    """Whether the first GPU is new enough for qrun: `compatible, compute_capability, gpu_name, reason, platform`.

    Without one qrun computes on the CPU. qrun's kernels begin at 7.5 whatever `min_compute_cap` says.
    """
    least = max(min_compute_cap, LEAST_CAPABILITY)
    result: Dict[str, Any] = {"compatible": False, "compute_capability": None, "gpu_name": None, "reason": None}
    result["platform"] = _platform()
    gpus = detect_cuda()["gpus"]
    if not gpus:
        result["reason"] = "no NVIDIA GPU was found: qrun computes on the CPU"
        return result
    name, capability = gpus[0]["name"], float(gpus[0]["compute_capability"])
    result.update(gpu_name=name, compute_capability=capability, compatible=capability >= least)
    more = "is enough" if capability >= least else f"is below {least}: qrun computes on the CPU"
    result["reason"] = f"{name}: compute capability {capability} {more}"
    return result


def _platform() -> str:
    if "COLAB_GPU" in os.environ or "COLAB_TPU_ADDR" in os.environ or "COLAB_RELEASE_TAG" in os.environ:
        return "colab"
    return "kaggle" if "KAGGLE_KERNEL_RUN_TYPE" in os.environ else "local"


def bootstrap() -> None:
    """Does nothing: qrun downloads nothing but models that are named."""


def setup_environment() -> Dict[str, str]:
    """Nothing to set up: {}."""
    return {}


def get_llama_cpp_cuda_path() -> Optional[Path]:
    """There is no llama.cpp here: None."""
    return None


def find_gguf_models(directory: Optional[Union[str, Path]] = None) -> List[Path]:
    """GGUF files of a folder; without one of this folder, of `~/models`, and what was downloaded."""
    if directory is not None:
        return sorted(Path(directory).glob("*.gguf"))
    found = [path for folder in (Path.cwd(), Path.home() / "models") for path in folder.glob("*.gguf")]
    return sorted(set(found + files()))


def print_system_info() -> None:
    """Prints Python, the system, GPUs, and the models that are here."""
    found = detect_cuda()
    print(f"qrun {__version__}, Python {platform.python_version()} ({sys.executable})")
    print(f"{platform.system()} {platform.release()}, {platform.machine()}")
    print(f"CUDA: {found['version'] if found['available'] else 'no GPU was found'}")
    for i, gpu in enumerate(found["gpus"]):
        print(f"  {i}: {gpu['name']}, {gpu['memory']}, driver {gpu['driver_version']}, SM {gpu['compute_capability']}")
    files = find_gguf_models()
    print(f"GGUF files: {len(files)}")
    for file in files[:5]:
        print(f"  {file.name} ({file.stat().st_size / 2**20:.1f} MiB)")
    if len(files) > 5:
        print(f"  and {len(files) - 5} more")


def validate_model_path(model_path: Union[str, Path]) -> bool:
    """Whether a file is there and its header is that of a whole GGUF file. llcuda looks at the name only."""
    try:
        Gguf(model_path)
    except (Error, OSError):
        return False
    return True


def get_recommended_gpu_layers(model_size_gb: float, vram_gb: float) -> int:
    """99 (all) where a model of that size fits with a context, else 0: a model is never split between GPU and CPU.

    >>> get_recommended_gpu_layers(0.8, 15.0), get_recommended_gpu_layers(15.0, 8.0)
    (99, 0)
    """
    return 99 if model_size_gb + RESERVE_GB <= vram_gb else 0


def auto_configure_for_model(model_path: Union[str, Path], vram_gb: Optional[float] = None) -> Dict[str, Any]:
    """`gpu_layers, ctx_size, batch_size, ubatch_size, n_parallel` for a file, from its bytes.

    Without `vram_gb` for the first GPU here.
    """
    if vram_gb is None:
        gpus = detect_cuda()["gpus"]
        vram_gb = int(gpus[0]["memory"].split()[0]) / 1024 if gpus else 0.0
    settings = ModelInfo.from_file(str(model_path)).get_recommended_settings(vram_gb)
    wanted = ("gpu_layers", "ctx_size", "batch_size", "ubatch_size")
    return {**{name: settings[name] for name in wanted}, "n_parallel": 1}


def _config() -> Dict[str, Any]:
    return {
        "server": {"url": "http://127.0.0.1:8090", "port": 8090, "host": "127.0.0.1", "auto_start": True},
        "model": {"gpu_layers": 99, "ctx_size": 2048, "n_parallel": 1},
        "inference": {"max_tokens": 128, "temperature": 0.7, "top_p": 0.9, "top_k": 40},
        "paths": {"llama_cpp_dir": None, "models_dir": str(Path.home() / "models")},
    }


def create_config_file(config_path: Optional[Path] = None) -> Path:
    """Writes llcuda's default settings, by default to `~/.llcuda/config.json`; qrun itself reads no such file."""
    path = Path(config_path) if config_path is not None else Path.home() / ".llcuda" / "config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_config(), indent=2) + "\n")
    return path


def load_config(config_path: Optional[Path] = None) -> Dict[str, Any]:
    """The settings of a file, or the defaults where there is none. llcuda writes the file then."""
    path = Path(config_path) if config_path is not None else Path.home() / ".llcuda" / "config.json"
    if not path.exists():
        log.info("qrun: %s is not there: the defaults", path)
        return _config()
    loaded: Dict[str, Any] = json.loads(path.read_text())
    return loaded
