"""`InferenceEngine`: a model in this process, by llcuda's names."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Sequence, Type, Union

from .. import Completion, Engine, Error, Stream
from .._arguments import note
from ..llama import is_demo
from ._result import InferResult, Metrics

Prompt = Union[str, List[Dict[str, Any]], List[int]]
"""A text, messages, or tokens."""

PARALLEL = 4
"""Answers at once where `n_parallel` says nothing: `batch_infer` runs so many in a step."""

WITHOUT_EFFECT = {
    "flash_attn": "attention is always computed without the whole matrix",
    "cache_ram": "what was computed is kept in the context's own memory",
    "fit": "the context is always as large as fits",
    "batch_size": "ubatch_size tokens of a prompt go through the layers together",
    "port": "there is no server",
    "host": "there is no server",
    "timeout": "there is no server; Ctrl-C ends an answer",
    "skip_gpu_check": "a GPU that cannot be used is left to itself",
    "n_gpu_layers": "gpu_layers says so",
}
"""Further arguments of llcuda's server that change nothing."""


class InferenceEngine:
    """A model that answers. There is no server and no network: `server_url` is kept and not used.

    >>> with InferenceEngine() as engine:
    ...     engine.load_model("demo", verbose=False)
    ...     engine.infer("What is qrun?", max_tokens=8, temperature=0.0).success
    True
    True
    """

    def __init__(self, server_url: str = "http://127.0.0.1:8090") -> None:
        self.server_url = server_url
        self._engine: Optional[Engine] = None
        self._raw = False
        self._metrics = Metrics()

    def load_model(
        self,
        model_name_or_path: str,
        gpu_layers: Optional[int] = None,
        ctx_size: Optional[int] = None,
        auto_start: bool = True,
        auto_configure: bool = True,
        n_parallel: int = 1,
        verbose: bool = True,
        interactive_download: bool = True,
        silent: bool = False,
        **kwargs: Any,
    ) -> Optional[bool]:
        """Opens a file, a short name, `user/repo:file.gguf`, or "demo"; True, or None where a download was declined.

        `gpu_layers=0` computes on the CPU; any other number on the GPU where there is one, for a model is never split.
        `ctx_size` None: as much as fits, for `n_parallel` answers at once (None said, four). A download is asked for only
        at a terminal. Further arguments are those of `qrun.Engine`.
        """
        from .models import load_model_smart

        say = print if verbose and not silent else _silent
        path = load_model_smart(model_name_or_path, interactive=interactive_download and not silent)
        if path is None:
            say("No model was loaded: the download was declined.")
            return None
        for name in [name for name in kwargs if name in WITHOUT_EFFECT]:
            kwargs.pop(name)
            note(name, WITHOUT_EFFECT[name], verbose and not silent)
        options: Dict[str, Any] = {"device": "cpu" if gpu_layers == 0 else "auto", "n_ctx": ctx_size or 0}
        options["n_seq"] = n_parallel if n_parallel > 1 else PARALLEL
        if "ubatch_size" in kwargs:
            options["n_ubatch"] = kwargs.pop("ubatch_size")
        started = time.perf_counter()
        self.unload_model()
        self._engine = Engine(None if is_demo(str(path)) else path, **{**options, **kwargs})
        info, plan = self._engine.info(), self._engine.plan()
        self._raw = info["chat_template"] is None
        say(f"{info['name'] or model_name_or_path}: {info['device']}, {info['n_ctx']} tokens of context,", end=" ")
        say(f"{plan['total'] / 2**20:.0f} MiB, loaded in {time.perf_counter() - started:.1f} s")
        return True

    def infer(
        self,
        prompt: Prompt,
        max_tokens: int = 128,
        temperature: float = 0.7,
        top_p: float = 0.9,
        top_k: int = 40,
        seed: Optional[int] = 0,
        stop_sequences: Union[str, Sequence[str], None] = None,
        *,
        raw: bool = False,
        **sampling: Any,
    ) -> InferResult:
        """Answers a prompt through the model's chat template; `raw=True` goes on with the text as it stands, as there.

        Seed 0 or None is a new one each time, and the result says which. What goes wrong is in `error_message`. Further arguments
        are those of `qrun.Engine.generate`.
        """
        given = self._sampling(max_tokens, temperature, top_p, top_k, seed, stop_sequences, raw, sampling)
        return self._answered(lambda engine: [engine.generate(prompt, **given)])[0]

    def infer_stream(
        self,
        prompt: Prompt,
        callback: Optional[Callable[[str], Any]],
        max_tokens: int = 128,
        temperature: float = 0.7,
        **kwargs: Any,
    ) -> InferResult:
        """The same; `callback` hears each piece of text as it is generated. What it raises ends the answer."""
        given = self._keywords(max_tokens, temperature, kwargs)

        def run(engine: Engine) -> List[Completion]:
            with engine.stream(prompt, **given) as stream:
                for piece in stream:
                    if callback is not None:
                        _heard(callback, piece)
                return [stream.completion]

        return self._answered(run)[0]

    def stream(self, prompt: Prompt, max_tokens: int = 128, temperature: float = 0.7, **kwargs: Any) -> Stream:
        """Pieces of the answer as they are generated: `for piece in engine.stream("...")`. llcuda has no such call."""
        return self.engine.stream(prompt, **self._keywords(max_tokens, temperature, kwargs))

    def batch_infer(self, prompts: Sequence[Prompt], max_tokens: int = 128, **kwargs: Any) -> List[InferResult]:
        """Answers all prompts, as many in each step as the model was loaded for. A wrong prompt spoils only its own."""
        given = self._keywords(max_tokens, kwargs.pop("temperature", 0.7), kwargs)

        def alone(prompt: Prompt) -> InferResult:
            return self._answered(lambda engine: [engine.generate(prompt, **given)])[0]

        try:
            return self._answered(lambda engine: engine.batch(list(prompts), **given), len(prompts), whole=True)
        except (Error, TypeError, ValueError):
            return [alone(prompt) for prompt in prompts]

    def _keywords(self, max_tokens: int, temperature: float, kwargs: Dict[str, Any]) -> Dict[str, Any]:
        """The sampling of a call that takes `infer`'s other arguments by name."""
        rest = dict(kwargs)
        top_p, top_k, seed = rest.pop("top_p", 0.9), rest.pop("top_k", 40), rest.pop("seed", 0)
        stops, raw = rest.pop("stop_sequences", None), rest.pop("raw", False)
        return self._sampling(max_tokens, temperature, top_p, top_k, seed, stops, raw, rest)

    def _sampling(
        self, max_tokens: int, temperature: float, top_p: float, top_k: int, seed: Any, stops: Any, raw: bool, rest: Any
    ) -> Dict[str, Any]:
        given = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "top_k": top_k, **rest}
        # What is no number is for the engine to judge: its errors are results.
        if seed is not None and not (isinstance(seed, int) and seed <= 0):
            given["seed"] = seed
        if stops:
            given["stop"] = stops
        # A model without a template can only go on with a text.
        return {**given, "raw": raw or self._raw}

    def _answered(
        self, run: Callable[[Engine], List[Completion]], n: int = 1, whole: bool = False
    ) -> List[InferResult]:
        """Runs, counts, and turns errors into results; with `whole` the caller does that."""
        started = time.perf_counter()
        try:
            results = [InferResult.of(done) for done in run(self.engine)]
        except _CallbackRaised as raised:
            raise raised.error from None
        except (Error, TypeError, ValueError) as error:
            if whole and n > 1 and self._engine is not None:
                raise
            return [InferResult(error_message=f"{type(error).__name__}: {error}")] * n
        self._metrics.add(results, (time.perf_counter() - started) * 1e3)
        return results

    @property
    def engine(self) -> Engine:
        """The `qrun.Engine` behind this."""
        if self._engine is None:
            raise Error("no model is loaded: call load_model first")
        return self._engine

    def get_metrics(self) -> Dict[str, Dict[str, Any]]:
        """Latencies and throughput since the beginning or the last reset, by llcuda's keys."""
        return self._metrics.report()

    def reset_metrics(self) -> None:
        """Forgets what was counted."""
        self._metrics = Metrics()

    def check_server(self) -> bool:
        """Whether requests are answered: here, whether a model is loaded."""
        return self.is_loaded

    def unload_model(self) -> None:
        """Frees the model's memory."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    @property
    def is_loaded(self) -> bool:
        """Whether a model is loaded."""
        return self._engine is not None

    def __enter__(self) -> "InferenceEngine":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.unload_model()


class _CallbackRaised(Exception):
    """Tells what a callback raised from what the engine did."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _heard(callback: Callable[[str], Any], piece: str) -> None:
    try:
        callback(piece)
    except Exception as error:
        raise _CallbackRaised(error) from None


def _silent(*text: Any, **how: Any) -> None:
    pass


def quick_infer(
    prompt: str,
    model_path: Optional[str] = None,
    max_tokens: int = 128,
    server_url: str = "http://127.0.0.1:8090",
    auto_start: bool = True,
) -> str:
    """One answer from a model that is opened for it; without a path from the one inside qrun.

    >>> len(quick_infer("What is qrun?", max_tokens=4)) > 0
    True
    """
    with InferenceEngine(server_url) as engine:
        engine.load_model(model_path or "demo", verbose=False)
        result = engine.infer(prompt, max_tokens=max_tokens)
        return result.text if result.success else f"Error: {result.error_message}"
