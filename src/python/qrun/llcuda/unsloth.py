"""llcuda.unsloth: refused; Unsloth exports GGUF itself, which `load_model` takes."""

from __future__ import annotations

from typing import NoReturn

from ._refused import refuse

__all__ = [
    "load_unsloth_model", "UnslothModelLoader", "check_unsloth_available", "export_to_llcuda", "export_to_gguf",
    "UnslothExporter", "ExportConfig", "merge_lora_adapters", "extract_base_model", "LoRAAdapter", "AdapterConfig",
]  # fmt: skip

REASON = (
    "it needs torch; save with Unsloth's own model.save_pretrained_gguf(folder, tokenizer, "
    "quantization_method='q4_k_m') and give load_model that file"
)
"""Why."""


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, __all__, name, REASON)
