"""llcuda.louie of version 2.2: refused."""

from __future__ import annotations

from typing import NoReturn

from ._refused import refuse

__all__ = [
    "LouieClient", "natural_query", "extract_entities", "extract_relationships", "KnowledgeExtractor",
    "build_knowledge_graph", "EntityType", "RelationType",
]  # fmt: skip

REASON = "it is a client of the service louie.ai; use the package of that service"
"""Why."""


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, __all__, name, REASON)
