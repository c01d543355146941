"""qrun reads a GGUF file and answers, on a GPU or the CPU.

>>> import qrun
>>> engine = qrun.Engine()  # the small demo model inside; qrun.Engine("model.gguf") opens a file
>>> len(engine.generate("What is a page table?", max_tokens=8).tokens)
8
"""

from __future__ import annotations

from qrun import _qrun
from qrun._chat import Chat
from qrun._completion import Completion, Logprob
from qrun._embedder import Embedder
from qrun._engine import Engine
from qrun._errors import (
    DeviceError,
    DeviceWarning,
    DownloadError,
    Error,
    GatedModel,
    ModelFileError,
    ModelNotFound,
    OutOfMemory,
    TemplateError,
    Unsupported,
    UsageError,
)
from qrun._gguf import Gguf, TensorInfo
from qrun._models import find, models, pull, remove
from qrun._stream import Stream
from qrun._tools import bench, devices, doctor, quantize, synth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from qrun.llama import Llama as Llama

__version__: str = _qrun.__version__

__all__ = [
    "Chat",
    "Completion",
    "DeviceError",
    "DeviceWarning",
    "DownloadError",
    "Embedder",
    "Engine",
    "Error",
    "GatedModel",
    "Gguf",
    "Llama",
    "Logprob",
    "ModelFileError",
    "ModelNotFound",
    "OutOfMemory",
    "Stream",
    "TemplateError",
    "TensorInfo",
    "Unsupported",
    "UsageError",
    "bench",
    "devices",
    "doctor",
    "find",
    "main",
    "models",
    "pull",
    "quantize",
    "remove",
    "synth",
]


def __getattr__(name: str) -> Any:
    # What few programs use is imported when it is asked for.
    if name == "Llama":
        from qrun.llama import Llama

        return Llama
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> int:
    """Runs the program `qrun` with the command line of this process; returns its exit code."""
    import signal
    import sys

    # The program has its own way with Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _qrun.main(sys.argv)
