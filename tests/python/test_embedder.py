"""Vectors of texts: against the program's, and against themselves."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
import qrun
from conftest import program

TEXTS = ["What is a page table?", "Hello", "", "Une phrase en français, un peu plus longue que les autres. " * 8]

Tiny = Callable[[str], Path]


def the_programs(model: Path, *flags: str) -> list[list[float]]:
    """What `qrun embed` gives for the texts."""
    text = "<SEP>".join(TEXTS)
    flags = ("--embd-separator", "<SEP>", "--embd-output-format", "json", "--device", "cpu", *flags)
    done = program("embed", str(model), "-p", text, *flags)
    assert done.returncode == 0, done.stderr
    return [row["embedding"] for row in json.loads(done.stdout)["data"]]


@pytest.mark.parametrize(("name", "pooling"), [("tiny-bert", None), ("tiny-qwen3", "last"), ("tiny-gemma3", "mean")])
def test_vectors_are_the_programs(tiny: Tiny, name: str, pooling: "str | None") -> None:
    model = tiny(name)
    with qrun.Embedder(model, pooling=pooling, device="cpu") as embedder:
        assert pooling is None or embedder.pooling == pooling
        texts = TEXTS if name == "tiny-bert" else [text or " " for text in TEXTS]
        found = embedder.embed(texts)
        assert [len(vector) for vector in found] == [embedder.width] * len(TEXTS)
        # Its empty line has tokens, too, where the model puts some around it.
        flags = () if pooling is None else ("--pooling", pooling)
        expected = the_programs(model, *flags)
        for i, (a, b) in enumerate(zip(found, expected)):
            assert TEXTS[i] != texts[i] or a == pytest.approx(b, abs=1e-6)
        # The same bits alone, and without the norm the same direction.
        assert [embedder.embed(text) for text in texts] == found
        raw = embedder.embed(texts[0], normalize=False)
        length = sum(x * x for x in raw) ** 0.5
        assert [x / length for x in raw] == pytest.approx(found[0], rel=1e-5)


def test_each_token_has_a_vector(tiny: Tiny) -> None:
    with qrun.Embedder(tiny("tiny-bert"), pooling="none") as embedder:
        one, other = embedder.embed(TEXTS[:2])
        assert [len(one), len(other)] == [len(embedder.tokenize(text)) for text in TEXTS[:2]]
        assert {len(vector) for vector in one} == {embedder.width}


def test_a_text_that_is_too_long_is_an_error_or_cut(tiny: Tiny) -> None:
    with qrun.Embedder(tiny("tiny-qwen3"), pooling="mean", n_ctx=16) as embedder:
        assert embedder.n_ctx == 16
        with pytest.raises(qrun.UsageError, match="text 1 has .* tokens, more than the context of 16"):
            embedder.embed(["short", TEXTS[3]])
        (cut,) = embedder.embed([TEXTS[3]], truncate=True)
        assert len(cut) == embedder.width
        # It goes on as before.
        assert embedder.embed(["short", "short"])[0] == embedder.embed("short")


def test_wrong_input_is_said_in_the_calls_words(tiny: Tiny) -> None:
    with pytest.raises(qrun.UsageError, match='pooling="mean"'):
        qrun.Embedder()
    with pytest.raises(qrun.UsageError, match='expected "none", "mean", "cls" or "last", found'):
        qrun.Embedder(pooling="rank")
    with pytest.raises(FileNotFoundError):
        qrun.Embedder("no-such-file.gguf")
    embedder = qrun.Embedder(pooling="mean")
    for odd in (["a", 3], [b"a"], 3):
        with pytest.raises(TypeError):
            embedder.embed(odd)  # type: ignore[arg-type]
    assert embedder.embed([]) == []
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(embedder)
    embedder.close()
    with pytest.raises(qrun.Error, match="closed"):
        embedder.embed("a")


def test_threads_take_turns(tiny: Tiny) -> None:
    with qrun.Embedder(tiny("tiny-bert")) as embedder:
        expected = embedder.embed(TEXTS)
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(embedder.embed, TEXTS * 5)) == expected * 5


def test_llama_cpp_pythons_methods(tiny: Tiny) -> None:
    llama = qrun.Llama(str(tiny("tiny-bert")), embedding=True, verbose=False)
    vector = llama.embed(TEXTS[0])
    assert len(vector) == llama.n_embd()
    made: "dict[str, Any]" = llama.create_embedding(TEXTS)
    assert made["object"] == "list" and [row["index"] for row in made["data"]] == [0, 1, 2, 3]
    assert made["data"][0]["embedding"] == vector and made["data"][0]["object"] == "embedding"
    assert made["usage"]["prompt_tokens"] == made["usage"]["total_tokens"] > 100
    vectors, tokens = llama.embed(TEXTS, normalize=True, return_count=True)
    assert tokens == made["usage"]["total_tokens"]
    assert sum(x * x for x in vectors[3]) == pytest.approx(1, abs=1e-5)
    with pytest.raises(qrun.Error):
        llama("It sees whole texts, and cannot answer")
    llama.close()
    demo = qrun.Llama("demo", embedding=True, pooling_type=1, verbose=False)
    assert demo.pooling_type() == "mean" and len(demo.embed("Hello")) == demo.n_embd()
    # It answers, too.
    assert demo("What is", max_tokens=2)["usage"]["completion_tokens"] == 2
    demo.close()
