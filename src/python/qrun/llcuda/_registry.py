"""The ten short names of llcuda, and what they mean here."""

from __future__ import annotations

from typing import Any, Dict


def _row(repo: str, tag: str, size_mb: int, description: str) -> Dict[str, Any]:
    size_gb = size_mb / 1000
    # Weights, and about as much again for a context of some thousand tokens as a small model needs.
    return {
        "repo": repo,
        "tag": tag,
        "size_mb": size_mb,
        "min_vram_gb": round(size_gb + 0.7, 1),
        "description": description,
    }


MODEL_REGISTRY: Dict[str, Dict[str, Any]] = {
    "gemma-3-1b-Q4_K_M": _row("unsloth/gemma-3-1b-it-GGUF", "Q4_K_M", 806, "Gemma 3 1B, instructed"),
    "gemma-3-1b-Q5_K_M": _row("unsloth/gemma-3-1b-it-GGUF", "Q5_K_M", 851, "Gemma 3 1B, instructed"),
    "gemma-2-2b-Q4_K_M": _row("bartowski/gemma-2-2b-it-GGUF", "Q4_K_M", 1709, "Gemma 2 2B, instructed"),
    "llama-3.1-8b-Q4_K_M": _row(
        "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "Q4_K_M", 4921, "Llama 3.1 8B, instructed"
    ),
    "llama-3.1-8b-Q5_K_M": _row(
        "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "Q5_K_M", 5733, "Llama 3.1 8B, instructed"
    ),
    "phi-3-mini-Q4_K_M": _row(
        "microsoft/Phi-3-mini-4k-instruct-gguf", "Q4_K_M", 2393, "Phi-3 mini, instructed, 4k context"
    ),
    "phi-3-mini-Q5_K_M": _row(
        "microsoft/Phi-3-mini-4k-instruct-gguf", "Q5_K_M", 2815, "Phi-3 mini, instructed, 4k context"
    ),
    "mistral-7b-Q4_K_M": _row("TheBloke/Mistral-7B-Instruct-v0.2-GGUF", "Q4_K_M", 4368, "Mistral 7B v0.2, instructed"),
    "mistral-7b-Q5_K_M": _row("TheBloke/Mistral-7B-Instruct-v0.2-GGUF", "Q5_K_M", 5131, "Mistral 7B v0.2, instructed"),
    "tinyllama-1.1b-Q5_K_M": _row("TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF", "Q5_K_M", 783, "TinyLlama 1.1B, chat"),
}
"""Short name → repository, type, about how many MB the file has, least memory of a GPU in GB, and what it is."""
