"""llcuda.inference: refused; it shows PyTorch what qrun does by itself."""

from __future__ import annotations

from typing import NoReturn

from ._refused import refuse

__all__ = [
    "FlashAttentionConfig", "enable_flash_attention", "flash_attention_forward", "KVCache", "KVCacheConfig",
    "PagedKVCache", "optimize_kv_cache", "BatchInferenceOptimizer", "ContinuousBatching", "batch_inference_optimized",
]  # fmt: skip

REASON = (
    "it is for PyTorch models and never reached the server that answers; attention without the whole matrix, a "
    "paged cache and continuous batching are always on here"
)
"""Why."""


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, __all__, name, REASON)
