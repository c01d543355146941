"""A model that answers."""

from __future__ import annotations

from operator import index

from qrun import _qrun
from qrun._errors import DeviceWarning, UsageError
from qrun._opened import Opened
from qrun._sampling import canonical, constraint, native, per_prompt
from qrun._stream import Stream, completion, end_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Callable, Iterable, Sequence, Union

    import numpy
    import numpy.typing

    from qrun._chat import Chat
    from qrun._completion import Completion

    Message = dict[str, Any]
    Prompt = Union[str, Sequence[int], Sequence[Message]]


def token_ids(given: Iterable[Any], name: str = "tokens") -> list[int]:
    """Tokens as Python's whole numbers, those of numpy too.

    >>> token_ids([1, 2.5])
    Traceback (most recent call last):
        ...
    TypeError: tokens: expected whole numbers, found 2.5
    """
    items = list(given)
    try:
        found = list(map(index, items))
    except TypeError:
        odd = next(item for item in items if not hasattr(item, "__index__"))
        raise TypeError(f"{name}: expected whole numbers, found {odd!r}") from None
    if found and not 0 <= min(found) <= max(found) < 1 << 32:
        raise UsageError(f"{name}: expected tokens from 0 on, found {min(found) if min(found) < 0 else max(found)}")
    return found


class Engine(Opened):
    """A model that is open, with its own thread; any number of threads may use it at once.

    `model` is the path of a GGUF file, the name of a model, or None for the small demo model inside.

    * `device`: "auto" (a GPU where the model runs there, else the CPU), "cuda", "cuda1" …, "cpu".
    * `n_ctx`: tokens of the context; 0: as many as the model was trained for and memory holds.
    * `n_seq`: how many answers run together in one step; others wait for their turn.
    * `n_threads`: CPU threads; 0: the physical cores.
    * `n_ubatch`: most prompt tokens of a step.
    * `cache_type_k`, `cache_type_v`: "f16", "q8_0" …; `exact`: f32 arithmetic on the CPU, the truth to compare with.
    * `chat_template`: a built-in name, a file or Jinja text in place of the file's own.
    * `offline`: True never uses the network; None asks `HF_HUB_OFFLINE`.
    * `progress(done, total)`: called with bytes while weights are loaded.

    >>> import qrun
    >>> engine = qrun.Engine()
    >>> engine.generate("What is a page table?", max_tokens=8, temperature=0).finish_reason
    'length'
    """

    __module__ = "qrun"

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        device: str = "auto",
        n_ctx: int = 0,
        n_seq: int = 1,
        n_threads: int = 0,
        n_ubatch: int = 512,
        cache_type_k: str | None = None,
        cache_type_v: str | None = None,
        exact: bool = False,
        swa_full: bool = False,
        chat_template: str | None = None,
        offline: bool | None = None,
        progress: Callable[[int, int], object] | None = None,
        **unknown: Any,
    ) -> None:
        options = {
            "device": device,
            "n_ctx": n_ctx,
            "n_seq": n_seq,
            "n_threads": n_threads,
            "n_ubatch": n_ubatch,
            "cache_type_k": cache_type_k,
            "cache_type_v": cache_type_v,
            "exact": exact,
            "swa_full": swa_full,
            "chat_template": chat_template,
            "progress": progress,
        }
        if unknown:
            from qrun._sampling import check_names

            check_names(unknown, [*options, "offline"])
        self._path = model
        if isinstance(model, str) and _qrun.is_name(model):
            from qrun._models import pull

            model = pull(model, offline=offline, progress=progress)
        self._native = _qrun.Model(model, options)
        # The tokens of the last finished answer and of its prompt.
        self._held: list[int] = []
        self._warn()

    @classmethod
    def from_pretrained(
        cls,
        repo: str,
        filename: str | None = None,
        *,
        revision: str | None = None,
        token: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Engine:
        """Fetches a model, where the cache does not have it, and opens it; `options` are those of the class.

        `repo` and `filename` are those of `qrun.pull`: without a tag or a file Q4_K_M is taken where there is one.

        >>> import qrun, tempfile
        >>> qrun.Engine.from_pretrained("someone/some-model:Q8_0", cache_dir=tempfile.mkdtemp(), offline=True)
        Traceback (most recent call last):
            ...
        qrun.DownloadError: someone/some-model:Q8_0: not in the cache ...
        """
        from qrun._models import pull

        path = pull(
            repo,
            filename,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            offline=options.get("offline"),
            progress=options.get("progress"),
        )
        return cls(path, **options)

    def _warn(self, depth: int = 3) -> None:
        """Warns of a GPU that was given up since the last call; `depth` frames below stands who called qrun."""
        for text in self._native.warnings():
            import warnings

            warnings.warn(text, DeviceWarning, stacklevel=depth)

    def _begin(self, prompt: Prompt, keywords: dict[str, Any]) -> _qrun.Answer:
        self._warn(4)
        return self._submit(self._prompt(prompt, keywords), keywords)

    def _submit(self, prompt: list[int] | _qrun.Prepared, keywords: dict[str, Any]) -> _qrun.Answer:
        sampling = native(keywords, lambda text: self.tokenize(text, add_special=False))
        held_to = constraint(keywords)
        if held_to is not None:
            import json

            sampling["constraint"] = json.dumps(held_to, ensure_ascii=False)
        return self._native.submit(prompt, sampling)

    def _end(self, answer: _qrun.Answer, keywords: dict[str, Any]) -> Completion:
        self._held = answer.held
        return completion(self._native, answer, keywords)

    def _prompt(self, prompt: Prompt, keywords: dict[str, Any]) -> list[int] | _qrun.Prepared:
        if isinstance(prompt, str):
            if keywords.get("raw"):
                return self._native.prompt(prompt)
            prompt = [{"role": "user", "content": prompt}]
        elif isinstance(prompt, (dict, bytes)) or not hasattr(prompt, "__len__"):
            found = "one message" if isinstance(prompt, dict) else type(prompt).__name__
            raise TypeError(f"prompt: expected a text, a list of messages or a list of tokens, found {found}")
        if len(prompt) and isinstance(prompt[0], str):
            raise TypeError("prompt: expected a text, found a list of texts; batch answers several")
        if not len(prompt) or not isinstance(prompt[0], dict):
            return token_ids(prompt, "prompt")
        messages = list(prompt)
        if keywords.get("system") is not None:
            messages.insert(0, {"role": "system", "content": keywords["system"]})
        names = ("tools", "tool_choice", "template_kwargs")
        extra: dict[str, Any] = {name: keywords[name] for name in names if name in keywords}
        return self._render(messages, {**extra, "constraint": constraint(keywords)})

    def _render(self, messages: Sequence[object], extra: dict[str, Any]) -> _qrun.Prepared:
        import json

        return self._native.chat(json.dumps(messages, ensure_ascii=False), json.dumps(extra, ensure_ascii=False))

    def generate(self, prompt: Prompt, **sampling: Any) -> Completion:
        """Answers, and waits for the end.

        A text goes through the chat template, as do messages (`[{"role": "user", "content": …}]`); a list of tokens,
        and with `raw=True` a text, is continued as it stands. `sampling` has llama.cpp's names and defaults, over which
        go the file's own: `max_tokens temperature top_k top_p min_p typical_p top_n_sigma repeat_penalty repeat_last_n
        presence_penalty frequency_penalty seed stop logit_bias logprobs logits_processor ignore_eos special`, and for
        conversations `system tools tool_choice template_kwargs`; `max_new_tokens n_predict repetition_penalty
        stop_sequences do_sample` are understood too. One of `grammar` (GBNF), `json_schema` and `response_format` says
        what the answer may be.

        >>> import qrun
        >>> engine = qrun.Engine()
        >>> a = engine.generate("What is a page table?", max_tokens=8, seed=1)
        >>> b = engine.generate([{"role": "user", "content": "What is a page table?"}], max_tokens=8, seed=1)
        >>> a.text == b.text
        True
        >>> engine.generate("Is qrun fast?", grammar='root ::= "yes" | "no"').text in ("yes", "no")
        True
        >>> engine.generate("Hello", max_token=8)
        Traceback (most recent call last):
            ...
        TypeError: unexpected keyword argument 'max_token'; did you mean 'max_tokens'?
        """
        keywords = canonical(sampling)
        answer = self._begin(prompt, keywords)
        answer.wait()
        return self._end(answer, keywords)

    def stream(self, prompt: Prompt, **sampling: Any) -> Stream:
        """Answers piece by piece; the arguments are those of `generate`.

        >>> import qrun
        >>> for piece in qrun.Engine().stream("What is a page table?", max_tokens=4):
        ...     _ = print(piece, end="", flush=True)  # doctest: +ELLIPSIS
        ...
        """
        keywords = canonical(sampling)
        self._warn()
        answer = self._submit(self._prompt(prompt, keywords), keywords)
        return Stream(self._native, answer, keywords, self._end)

    async def agenerate(self, prompt: Prompt, **sampling: Any) -> Completion:
        """`generate` for an event loop, which runs on meanwhile. Cancelling the task ends the answer.

        >>> import asyncio, qrun
        >>> engine = qrun.Engine(n_seq=2)
        >>> async def both():
        ...     return await asyncio.gather(*(engine.agenerate(p, max_tokens=4) for p in ["One?", "Two?"]))
        >>> [len(done.tokens) for done in asyncio.run(both())]
        [4, 4]
        """
        keywords = canonical(sampling)
        answer = self._begin(prompt, keywords)
        await end_of(answer)
        return self._end(answer, keywords)

    def batch(self, prompts: Iterable[Prompt], **sampling: Any) -> list[Completion]:
        """Answers many prompts, `n_seq` of them together in one step; the text of each is what it would be alone.

        A keyword's value is for all, or a list with one for each.

        >>> import qrun
        >>> done = qrun.Engine(n_seq=2).batch(["One?", "Two?"], max_tokens=[2, 3], temperature=0)
        >>> [len(each.tokens) for each in done]
        [2, 3]
        """
        if isinstance(prompts, (str, bytes)) or not hasattr(prompts, "__iter__"):
            found = "a text" if isinstance(prompts, str) else type(prompts).__name__
            raise TypeError(f"prompts: expected a list of prompts, found {found}")
        asked = list(prompts)
        rows = [canonical(row) for row in per_prompt(sampling, len(asked))]
        answers = [self._begin(prompt, row) for prompt, row in zip(asked, rows)]
        for answer in answers:
            answer.wait()
        return [self._end(answer, row) for answer, row in zip(answers, rows)]

    def chat(self, system: str | None = None, **sampling: Any) -> Chat:
        """A conversation; `sampling` holds for all of its answers."""
        from qrun._chat import Chat

        return Chat(self, system, **sampling)

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The tokens of a text.

        `add_special`: with the marks that the model wants around a text; `parse_special`: control tokens that are
        written out are taken as such.

        >>> import qrun
        >>> engine = qrun.Engine()
        >>> tokens = engine.tokenize("a page table", add_special=False)
        >>> engine.detokenize(tokens)
        'a page table'
        """
        return self._native.tokenize(text, add_special, parse_special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens; with `special` control tokens are written out."""
        return self._native.detokenize(token_ids(tokens), special)

    def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        """The bytes of each token; those of control tokens are empty.

        >>> import qrun
        >>> engine = qrun.Engine()
        >>> tokens = engine.tokenize("a page table", add_special=False)
        >>> b"".join(engine.pieces(tokens))
        b'a page table'
        """
        return self._native.pieces(token_ids(tokens))

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        tokenize: bool = False,
        add_generation_prompt: bool = True,
        tools: Sequence[Message] | None = None,
        **variables: Any,
    ) -> str | list[int]:
        """A conversation in the model's own form: its text, or its tokens.

        >>> import qrun
        >>> text = qrun.Engine().apply_chat_template([{"role": "user", "content": "Hello"}])
        >>> "Hello" in text
        True
        """
        extra = {"add_generation_prompt": add_generation_prompt, "tools": tools, "template_kwargs": variables}
        prepared = self._render(list(messages), extra)
        return prepared.tokens if tokenize else prepared.text

    def logits(
        self, prompt: Prompt, *, all: bool = False, raw: bool = False
    ) -> numpy.typing.NDArray[numpy.float32]:
        """The logits after a prompt, float32 `[n_vocab]`; with `all` after each of its tokens, `[n, n_vocab]`.

        Needs numpy.

        >>> import qrun
        >>> engine = qrun.Engine()
        >>> logits = engine.logits([1, 2, 3])
        >>> logits.shape == (engine.info()["n_vocab"],)
        True
        >>> int(logits.argmax()) == engine.generate([1, 2, 3], max_tokens=1, temperature=0).tokens[0]
        True
        """
        import numpy

        self._warn()
        found = self._prompt(prompt, {"raw": raw})
        tokens = found if isinstance(found, list) else found.tokens
        answer = self._native.evaluate(tokens, 0 if all else max(len(tokens) - 1, 0), True)
        answer.wait()
        flat = numpy.frombuffer(answer.logits(), dtype=numpy.float32)
        return flat.reshape(len(tokens), -1) if all else flat

    def perplexity(self, text: str, *, chunk: int = 512) -> float:
        """How well the model predicts a text, measured as `qrun perplexity` and llama.cpp do.

        The text is cut into chunks of `chunk` tokens; the second half of each is scored. What does not fill one is left
        out.

        >>> import qrun
        >>> engine = qrun.Engine()
        >>> known = engine.perplexity("What is a page table? " * 20, chunk=32)
        >>> 1 < known < engine.info()["n_vocab"]
        True
        """
        import math

        self._warn()
        scores = []
        for tokens in self._native.chunks(text, chunk):
            answer = self._native.evaluate(tokens, chunk // 2, False)
            answer.wait()
            scores.append(answer.scores)
        total, n = (sum(column) for column in zip(*scores))
        return math.exp(-total / n)

    def save(self, path: str | os.PathLike[str]) -> int:
        """Writes the last finished answer and its prompt into a file, with what was computed of them.

        Returns how many tokens these are. `load` reads it, in another process too: a prompt that begins so is not
        computed again. `Chat.save` keeps the messages as well. An existing file is replaced only if it is a session.

        >>> import qrun, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "session")
        >>> engine = qrun.Engine()
        >>> done = engine.generate("What is a page table?", max_tokens=4)
        >>> n = engine.save(path)
        >>> other = qrun.Engine()
        >>> len(other.load(path)) == n
        True
        >>> other.generate("What is a page table?", max_tokens=4).cached_tokens == done.prompt_tokens - 1
        True
        """
        return self._save(path, self._held, {})

    def _save(self, path: str | os.PathLike[str], tokens: list[int], notes: dict[str, Any]) -> int:
        import json

        return self._native.save(path, tokens, json.dumps(notes))

    def load(self, path: str | os.PathLike[str]) -> list[int]:
        """Reads what `save` or the program's `/save` wrote; returns its tokens."""
        tokens, _, why = self._native.load(path)
        if why is not None:
            raise UsageError(f"{path}: its cache cannot be used: {why}")
        return tokens

    def plan(self) -> dict[str, Any]:
        """The memory that the model takes, in bytes by purpose, and what was available.

        >>> import qrun
        >>> plan = qrun.Engine(device="cpu").plan()
        >>> plan["device"], plan["total"] == plan["weights"] + plan["kv"] + plan["activations"]
        ('cpu', True)
        """
        import json

        found: dict[str, Any] = json.loads(self._native.plan())
        return found

    def info(self) -> dict[str, Any]:
        """What the model is: name, architecture, sizes, device, special tokens.

        >>> import qrun
        >>> info = qrun.Engine(n_ctx=256).info()
        >>> info["n_ctx"], info["n_seq"]
        (256, 1)
        """
        import json

        found: dict[str, Any] = json.loads(self._native.info())
        return found

    def close(self) -> None:
        """Ends all answers and frees the memory. Without this it is done when the engine is dropped."""
        self._native.close()

    def __repr__(self) -> str:
        return f"Engine({'' if self._path is None else repr(str(self._path))})"
