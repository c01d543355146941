"""`qrun.Llama`: the class of llama-cpp-python, on qrun.

Signatures, defaults and the dicts that come back are llama-cpp-python's; `n_ctx=0`, as much context as fits, is the one
default that differs. Arguments that change nothing here are said once under `verbose`; those that would change the text and
cannot be followed raise `qrun.Unsupported`.

>>> from qrun import Llama
>>> llama = Llama("demo", verbose=False)
>>> answer = llama.create_chat_completion([{"role": "user", "content": "What is qrun?"}], temperature=0.0, max_tokens=8)
>>> sorted(answer)
['choices', 'created', 'id', 'model', 'object', 'usage']
"""

from __future__ import annotations

import os
import random
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from . import Completion, Embedder, Engine, Error, Gguf, Unsupported, UsageError, pull
from ._arguments import note, refuse
from ._llama_arguments import (
    ANSWERS,
    CACHE_TYPES,
    CALL,
    CHAT,
    CONSTRUCTOR,
    NEW_SEED,
    POOLING,
    WITHOUT_EFFECT,
    constraint,
    grammar_text,
)
from ._llama_logprobs import entries, log_softmax, prompt_entries
from ._llama_steps import Steps, processor
from ._openai import Frame, Json, chat, chat_chunks, logprobs as openai_logprobs, usage

Answer = Union[Json, Iterator[Json]]


class Llama(Steps):
    """A model that answers, with llama-cpp-python's methods.

    `model_path` is a file, a name (`qrun.pull` says which), or "demo" for the model inside qrun. Keyword arguments that
    llama-cpp-python lacks go to `qrun.Engine`: `device`, `exact`, `chat_template`, `offline`, ...
    """

    def __init__(
        self,
        model_path: str,
        *,
        n_gpu_layers: int = 0,
        split_mode: int = 1,
        main_gpu: int = 0,
        tensor_split: Optional[List[float]] = None,
        vocab_only: bool = False,
        use_mmap: bool = True,
        use_mlock: bool = False,
        kv_overrides: Optional[Dict[str, Union[bool, int, float, str]]] = None,
        seed: int = NEW_SEED,
        n_ctx: int = 0,
        n_batch: int = 512,
        n_ubatch: int = 512,
        n_threads: Optional[int] = None,
        n_threads_batch: Optional[int] = None,
        rope_scaling_type: Optional[int] = -1,
        pooling_type: int = -1,
        attention_type: int = -1,
        rope_freq_base: float = 0.0,
        rope_freq_scale: float = 0.0,
        yarn_ext_factor: float = -1.0,
        yarn_attn_factor: float = 1.0,
        yarn_beta_fast: float = 32.0,
        yarn_beta_slow: float = 1.0,
        yarn_orig_ctx: int = 0,
        logits_all: bool = False,
        embedding: bool = False,
        offload_kqv: bool = True,
        flash_attn: bool = False,
        op_offload: Optional[bool] = None,
        swa_full: Optional[bool] = None,
        no_perf: bool = False,
        last_n_tokens_size: int = 64,
        lora_base: Optional[str] = None,
        lora_scale: float = 1.0,
        lora_path: Optional[str] = None,
        numa: Union[bool, int] = False,
        chat_format: Optional[str] = None,
        chat_handler: Optional[Any] = None,
        draft_model: Optional[Any] = None,
        tokenizer: Optional[Any] = None,
        type_k: Optional[int] = None,
        type_v: Optional[int] = None,
        spm_infill: bool = False,
        verbose: bool = True,
        **kwargs: Any,
    ) -> None:
        given = {**locals(), **kwargs}
        self._arguments = {name: given[name] for name in given if name not in ("self", "kwargs", "given", "__class__")}
        refuse(given, CONSTRUCTOR)
        for name, (default, why) in WITHOUT_EFFECT.items():
            if given[name] != default:
                note(name, why, verbose)
        self.model_path = os.fspath(model_path or "demo")
        self.verbose = verbose
        self.last_n_tokens_size = last_n_tokens_size
        kwargs.setdefault("device", "cpu" if n_gpu_layers == 0 else "auto")
        common: Dict[str, Any] = {
            "model": None if is_demo(model_path) else model_path,
            "n_ctx": n_ctx,
            "n_threads": n_threads or 0,
            "n_ubatch": n_ubatch,
            "cache_type_k": CACHE_TYPES[type_k],
            "cache_type_v": CACHE_TYPES[type_v],
        }
        self._options: Dict[str, Any] = {**common, "swa_full": bool(swa_full), **kwargs}
        self._opened: Optional[Engine] = None
        self._embedder: Optional[Embedder] = None
        self._opening = threading.Lock()
        self._closed = False
        if embedding:
            # A model that answers is opened as well when it is asked to.
            own = {name: value for name, value in kwargs.items() if name not in ANSWERS}
            self._embedder = Embedder(**common, pooling=POOLING[pooling_type], **own)
        self._info: Dict[str, Any] = (self._embedder or self._engine).info()
        self._metadata: Optional[Dict[str, str]] = None
        self._begin_steps(logits_all)
        self.cache: Any = None
        self.set_seed(seed)

    @property
    def _engine(self) -> Engine:
        with self._opening:
            if self._opened is None:
                if self._closed:
                    raise Error("this model is closed")
                self._opened = Engine(**self._options)
            return self._opened

    # Answers

    def create_completion(
        self,
        prompt: Union[str, List[int]],
        suffix: Optional[str] = None,
        max_tokens: Optional[int] = 16,
        temperature: float = 0.8,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        logprobs: Optional[int] = None,
        echo: bool = False,
        stop: Optional[Union[str, List[str]]] = [],
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        top_k: int = 40,
        stream: bool = False,
        seed: Optional[int] = None,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: Optional[str] = None,
        stopping_criteria: Optional[Any] = None,
        logits_processor: Optional[Any] = None,
        grammar: Optional[Any] = None,
        logit_bias: Optional[Dict[int, float]] = None,
    ) -> Answer:
        """Goes on with a text or with tokens, without the chat template; with `stream`, an iterator of chunks.

        `logprobs=n` adds each token's log-probability and the n likeliest ones'; `echo` puts the prompt before the answer.
        `max_tokens` None or below 1: until the model ends or the context is full.
        """
        refuse(locals(), CALL)
        sampling = self._sampling(locals())
        tokens, text = self._prompt(prompt)
        frame = Frame(model or self.model_path)
        if stream:
            return self._chunks(frame, tokens, sampling, len(text))
        return self._whole(frame, tokens, sampling, text, echo)[0]

    __call__ = create_completion

    def create_chat_completion(
        self,
        messages: List[Any],
        functions: Optional[List[Any]] = None,
        function_call: Optional[Any] = None,
        tools: Optional[List[Any]] = None,
        tool_choice: Optional[Any] = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        stream: bool = False,
        stop: Optional[Union[str, List[str]]] = [],
        seed: Optional[int] = None,
        response_format: Optional[Any] = None,
        max_tokens: Optional[int] = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: Optional[str] = None,
        logits_processor: Optional[Any] = None,
        grammar: Optional[Any] = None,
        logit_bias: Optional[Dict[int, float]] = None,
        logprobs: Optional[bool] = None,
        top_logprobs: Optional[int] = None,
    ) -> Answer:
        """Answers a conversation through the model's own chat template; with `stream`, an iterator of chunks."""
        refuse(locals(), CHAT)
        sampling = self._sampling({**locals(), "logprobs": (top_logprobs or 0) if logprobs else None})
        sampling.update(constraint(response_format))
        if tools is not None:
            sampling["tools"] = tools
            if tool_choice is not None:
                sampling["tool_choice"] = tool_choice
        frame = Frame(model or self.model_path)
        if stream:
            calls: List[Json] = []
            return chat_chunks(self._chunks(frame, messages, sampling, 0, calls), calls)
        answer, done = self._whole(frame, messages, sampling, "", False)
        return chat(answer, done.message)

    def create_chat_completion_openai_v1(self, *args: Any, **kwargs: Any) -> Any:
        """The same as an object of the package openai: `ChatCompletion`, or an iterator of `ChatCompletionChunk`."""
        from openai.types.chat import (  # type: ignore[import-not-found,unused-ignore]
            ChatCompletion,
            ChatCompletionChunk,
        )

        answer = self.create_chat_completion(*args, **kwargs)
        return ChatCompletion(**answer) if isinstance(answer, dict) else (ChatCompletionChunk(**c) for c in answer)

    def _sampling(self, given: Dict[str, Any]) -> Dict[str, Any]:
        """llama-cpp-python's arguments in `Engine.generate`'s words."""
        same = "temperature top_p min_p typical_p top_k repeat_penalty frequency_penalty presence_penalty".split()
        sampling: Dict[str, Any] = {name: given[name] for name in same}
        limit, stop, seed = given["max_tokens"], given["stop"], given["seed"]
        sampling["max_tokens"] = limit if limit is not None and limit > 0 else None
        sampling["stop"] = [stop] if isinstance(stop, str) else list(stop or [])
        sampling["seed"] = self._random.getrandbits(32) if seed is None or seed in (-1, NEW_SEED) else seed
        sampling["repeat_last_n"] = self.last_n_tokens_size
        if given["logit_bias"]:
            sampling["logit_bias"] = {int(token): float(bias) for token, bias in given["logit_bias"].items()}
        if given["logits_processor"] is not None:
            sampling["logits_processor"] = processor(given["logits_processor"])
        if given["grammar"] is not None:
            sampling["grammar"] = grammar_text(given["grammar"])
        if given["logprobs"] is not None:
            sampling["logprobs"] = given["logprobs"]
        return sampling

    def _prompt(self, prompt: Union[str, List[int]]) -> "tuple[List[int], str]":
        """Tokens and text of a prompt; a text gets the tokens that the file puts at the beginning."""
        if isinstance(prompt, str):
            return self._engine.tokenize(prompt, add_special=True, parse_special=True), prompt
        return list(prompt), self._text(list(prompt))

    def _text(self, tokens: List[int]) -> str:
        return self.detokenize(tokens).decode("utf-8", errors="ignore")

    def _counted(self, done: Completion) -> int:
        """How many tokens an answer has without the one that ended the turn."""
        ended = done.finish_reason in ("stop", "tool_calls") and done.stop is None
        return len(done.tokens) - int(ended and done.tokens[-1:] != [] and done.tokens[-1] in self._info["eog"])

    def _whole(
        self, frame: Frame, prompt: Any, sampling: Dict[str, Any], text: str, echo: bool
    ) -> "tuple[Json, Completion]":
        done = self._engine.generate(prompt, **sampling)
        n = self._counted(done)
        found: Optional[Json] = None
        if done.logprobs is not None:
            listed = entries(self._engine, done.logprobs[:n])
            if echo:
                listed = prompt_entries(self._engine, prompt, sampling["logprobs"]) + listed
            found = openai_logprobs(listed, 0 if echo else len(text))
        answer = frame.completion(text + done.text if echo else done.text, found, _finish(done))
        return {**answer, "usage": usage(done.prompt_tokens, n)}, done

    def _chunks(
        self, frame: Frame, prompt: Any, sampling: Dict[str, Any], offset: int, calls: Optional[List[Json]] = None
    ) -> Iterator[Json]:
        """Chunks as they are generated; closing the iterator ends the generation. `calls` gets those of tools at the end."""
        with self._engine.stream(prompt, **sampling) as stream:
            given = 0
            for piece in stream:
                found: Optional[Json] = None
                if stream.logprobs is not None:
                    listed = entries(self._engine, stream.logprobs[given:])
                    found, given = openai_logprobs(listed, offset), given + len(listed)
                offset += len(piece)
                yield frame.completion(piece, found, None)
            done = stream.completion
            if calls is not None and done.message is not None:
                calls += done.message.get("tool_calls", ())
            yield frame.completion("", None, _finish(done))

    # Tokens

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> List[int]:
        """Tokens of a text in UTF-8; `special`: names of control tokens become these tokens."""
        reader = self._embedder or self._engine
        return reader.tokenize(text.decode("utf-8"), add_special=add_bos, parse_special=special)

    def detokenize(self, tokens: List[int], prev_tokens: Optional[List[int]] = None, special: bool = False) -> bytes:
        """The bytes of tokens, which may end within a character."""
        if prev_tokens is not None:
            before = self.detokenize(prev_tokens, special=special)
            return self.detokenize(prev_tokens + tokens, special=special)[len(before) :]
        written = self._engine.pieces(tokens)
        if special:
            written = [p or self._engine.detokenize([t], special=True).encode() for t, p in zip(tokens, written)]
        joined = b"".join(written)
        # A tokenizer that puts a space before the first word puts it behind the beginning token too.
        spaced = not special and tokens[:1] == [self.token_bos()] and joined[:1] == b" "
        return joined[1:] if spaced else joined

    def token_bos(self) -> int:
        """The token at the beginning of a text; -1 where there is none."""
        return _or_minus_one(self._info["bos"])

    def token_eos(self) -> int:
        """The token that ends a text; -1 where there is none."""
        return _or_minus_one(self._info["eos"])

    def token_nl(self) -> int:
        """The token of a line's end."""
        return self._engine.tokenize("\n", add_special=False, parse_special=False)[-1]

    def tokenizer(self) -> "Llama":
        """What tokenizes: this object, which has `tokenize` and `detokenize`."""
        return self

    # The model

    def set_seed(self, seed: int) -> None:
        """Same seed, same texts from here on; -1 or 4294967295: a new one by chance."""
        self._random = random.Random(None if seed in (-1, NEW_SEED) else seed)

    def set_cache(self, cache: Optional[Any]) -> None:
        """Has no effect: what was computed for the beginning of a prompt is used again anyway."""
        note("set_cache", "what was computed for the beginning of a prompt is used again anyway", self.verbose)
        self.cache = cache

    def n_ctx(self) -> int:
        """Tokens of context."""
        return int(self._info["n_ctx"])

    def n_vocab(self) -> int:
        """Tokens of the vocabulary."""
        return int(self._info["n_vocab"])

    def n_embd(self) -> int:
        """Width of the model."""
        return int(self._info["n_embd"])

    def pooling_type(self) -> str:
        """How embeddings are pooled."""
        return self._embedder.pooling if self._embedder else "none"

    @property
    def metadata(self) -> Dict[str, str]:
        """The file's metadata but lists, as text."""
        if self._metadata is None:
            file = Gguf(None if is_demo(self.model_path) else self._info["path"])
            items = file.metadata.items()
            self._metadata = {k: metadata_text(v) for k, v in items if not isinstance(v, (list, tuple, dict))}
        return self._metadata

    def create_embedding(self, input: Union[str, List[str]], model: Optional[str] = None) -> Json:
        """The vectors of a text or of several, in OpenAI's form. The model is opened with `embedding=True`."""
        vectors, tokens = self.embed([input] if isinstance(input, str) else input, return_count=True)
        data = [{"object": "embedding", "embedding": vector, "index": i} for i, vector in enumerate(vectors)]
        used = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": model or self.model_path, "usage": used}

    def embed(
        self, input: Union[str, List[str]], normalize: bool = False, truncate: bool = True, return_count: bool = False
    ) -> Any:
        """The vector of a text, or a list with the vector of each; with `return_count` also how many tokens they were.

        `truncate`: of a text that is too long the beginning is taken. The model is opened with `embedding=True`.
        """
        if self._embedder is None:
            raise UsageError("embedding: this model was opened to answer; Llama(..., embedding=True) makes vectors")
        tokens = self._embedder._tokens(input, truncate)
        vectors = self._embedder._vectors(tokens, normalize)
        found = vectors[0] if isinstance(input, str) else vectors
        return (found, sum(map(len, tokens))) if return_count else found

    @staticmethod
    def logits_to_logprobs(logits: Any, axis: int = -1) -> Any:
        """The logarithm of the softmax along an axis, a numpy array of float32."""
        return log_softmax(logits, axis)

    @staticmethod
    def longest_token_prefix(a: Sequence[int], b: Sequence[int]) -> int:
        """How many tokens two lists have in common at the beginning.

        >>> Llama.longest_token_prefix([1, 2, 3], [1, 2, 4, 5])
        2
        """
        return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))

    @classmethod
    def from_pretrained(
        cls,
        repo_id: str,
        filename: Optional[str],
        additional_files: Optional[List[Any]] = None,
        local_dir: Optional[Union[str, "os.PathLike[str]"]] = None,
        local_dir_use_symlinks: Any = "auto",
        cache_dir: Optional[Union[str, "os.PathLike[str]"]] = None,
        **kwargs: Any,
    ) -> "Llama":
        """A model of the hub, by repository and file name (`*` stands for anything); the hub's own cache holds it."""
        if local_dir is not None:
            raise Unsupported(
                f"local_dir={local_dir!r}: files are kept in the hub's cache; cache_dir names another one"
            )
        if additional_files:
            note("additional_files", "all parts of a model are found by themselves", kwargs.get("verbose", True))
        where: Dict[str, Any] = {} if cache_dir is None else {"cache_dir": os.fspath(cache_dir)}
        hub = {name: kwargs.pop(name) for name in ("revision", "token") if name in kwargs}
        both = {name: kwargs.get(name) for name in ("offline", "progress")}
        path = pull(repo_id, filename, **hub, **where, **both)
        return cls(model_path=path, **kwargs)

    def close(self) -> None:
        """Frees the memory; later calls raise."""
        self._closed = True
        for opened in (self._opened, self._embedder):
            if opened is not None:
                opened.close()

    def __getstate__(self) -> Dict[str, Any]:
        return self._arguments

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def is_demo(model: Optional[str]) -> bool:
    """Whether a name means the model inside qrun: "demo", where no file has this name."""
    return model in (None, "demo") and not os.path.exists("demo")


def metadata_text(value: Any) -> str:
    """A value of the metadata as llama.cpp writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, float) else str(value)


def _finish(done: Completion) -> str:
    """Why an answer ended; what was cancelled from outside counts as full."""
    return "length" if done.finish_reason == "cancelled" else done.finish_reason


def _or_minus_one(token: Optional[int]) -> int:
    return -1 if token is None else token
