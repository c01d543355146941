"""llcuda's names on qrun: `import qrun.llcuda as llcuda`, and the cells of its notebooks run.

What is the same, better or refused, and why: the page "From llcuda". There is no server to start, nothing is downloaded at
import, and prompts go through the model's chat template (`raw=True` sends them as they stand).

>>> import qrun.llcuda as llcuda
>>> engine = llcuda.InferenceEngine()
>>> engine.load_model("demo", verbose=False)
True
>>> result = engine.infer("What is qrun?", max_tokens=8, temperature=0.0)
>>> result.success, result.tokens_generated
(True, 8)
"""

from __future__ import annotations

import importlib
from typing import Any

from .. import __version__ as __version__
from ._engine import InferenceEngine, quick_infer
from ._result import InferResult
from .server import ServerManager
from .utils import (
    auto_configure_for_model as auto_configure_for_model,
    bootstrap,
    check_cuda_available,
    check_gpu_compatibility,
    create_config_file as create_config_file,
    detect_cuda,
    find_gguf_models,
    get_cuda_device_info,
    get_llama_cpp_cuda_path,
    get_recommended_gpu_layers as get_recommended_gpu_layers,
    load_config as load_config,
    print_system_info,
    setup_environment,
    validate_model_path as validate_model_path,
)

__all__ = [
    "InferenceEngine", "InferResult", "ServerManager", "bootstrap", "check_cuda_available", "get_cuda_device_info",
    "check_gpu_compatibility", "detect_cuda", "setup_environment", "find_gguf_models", "print_system_info",
    "get_llama_cpp_cuda_path", "quick_infer", "jupyter", "chat", "embeddings", "models", "quantization", "unsloth", "cuda",
    "inference",
]  # fmt: skip

_MODULES = ("jupyter", "chat", "embeddings", "models", "quantization", "unsloth", "cuda", "inference", "gguf_parser", "api",
            "graphistry", "louie")  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
