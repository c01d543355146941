"""llcuda.cuda: refused; it shows PyTorch what qrun does by itself."""

from __future__ import annotations

from typing import NoReturn

from ._refused import refuse

__all__ = [
    "CUDAGraph", "GraphPool", "capture_graph", "replay_graph", "enable_cuda_graphs", "TritonKernel", "register_kernel",
    "get_kernel", "list_kernels", "TensorCoreConfig", "enable_tensor_cores", "matmul_tensor_core",
    "check_tensor_core_support",
]  # fmt: skip

REASON = (
    "it is for PyTorch models and never reached the server that answers; graphs and tensor cores are used here "
    "without being asked for"
)
"""Why."""


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, __all__, name, REASON)
