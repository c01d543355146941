"""llcuda.api of version 2.2: refused; any client of OpenAI works with `qrun serve`."""

from __future__ import annotations

from typing import NoReturn

from ._refused import refuse

__all__ = [
    "LlamaCppClient", "ChatCompletionsAPI", "EmbeddingsClientAPI", "ModelsClientAPI", "SlotsClientAPI", "LoraClientAPI",
    "Message", "Choice", "Usage", "Timings", "CompletionResponse", "EmbeddingData", "EmbeddingsResponse",
    "RerankResult", "RerankResponse", "TokenizeResponse", "ModelInfo", "SlotInfo", "HealthStatus", "LoraAdapter",
    "MultiGPUConfig", "SplitMode", "GPUInfo", "detect_gpus", "get_cuda_version", "get_total_vram", "get_free_vram",
    "is_multi_gpu", "gpu_count", "kaggle_t4_dual_config", "colab_t4_single_config", "auto_config",
    "estimate_model_vram", "can_fit_model", "recommend_quantization", "set_cuda_visible_devices",
    "get_cuda_visible_devices", "print_gpu_info", "GGUFMetadata", "GGUFTensorInfo", "GGUFModelInfo", "GGMLType",
    "GGUFValueType", "QUANT_TYPE_NAMES", "parse_gguf_header", "quantize", "convert_hf_to_gguf", "merge_lora",
    "generate_imatrix", "find_gguf_models", "get_model_summary", "compare_models", "validate_gguf",
    "get_recommended_quant", "NCCLCommunicator", "NCCLConfig", "NCCLInfo", "is_nccl_available", "get_nccl_version",
    "get_nccl_info", "setup_nccl_environment", "kaggle_nccl_config", "print_nccl_info", "get_llama_cpp_nccl_args",
]  # fmt: skip

REASON = "use any client of OpenAI, or of llama-server, with `qrun serve`; a model runs on one GPU"
"""Why."""


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, __all__, name, REASON)
