"""llcuda.graphistry of version 2.2: refused."""

from __future__ import annotations

from typing import NoReturn

from ._refused import refuse

__all__ = [
    "GraphWorkload", "SplitGPUManager", "create_graph_from_llm_output", "visualize_knowledge_graph", "RAPIDSBackend",
    "create_cudf_dataframe", "run_cugraph_algorithm", "check_rapids_available", "GraphistryConnector",
    "register_graphistry", "plot_graph",
]  # fmt: skip

REASON = "it draws graphs with graphistry and RAPIDS, not with a language model; use these packages themselves"
"""Why."""


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, __all__, name, REASON)
