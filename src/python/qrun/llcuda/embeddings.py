"""llcuda.embeddings: refused."""

from __future__ import annotations

from typing import NoReturn

from ._refused import refuse

__all__ = [
    "EmbeddingEngine", "cosine_similarity", "euclidean_distance", "dot_product_similarity", "SemanticSearch",
    "TextClustering",
]  # fmt: skip

REASON = "an engine that answers gives logits, not the last hidden state; qrun.Embedder makes vectors of texts"
"""Why."""


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, __all__, name, REASON)
