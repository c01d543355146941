"""Vectors of texts: against the program's, and against themselves; threads, signals and forks."""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
import qrun
from conftest import program, script

TEXTS = ["What is a page table?", "Hello", "", "Une phrase en français, un peu plus longue que les autres. " * 8]

Tiny = Callable[[str], Path]


def the_programs(model: Path, texts: list[str], *flags: str) -> list[list[float]]:
    """What `qrun embed` gives for the texts."""
    text = "<SEP>".join(texts)
    flags = ("--embd-separator", "<SEP>", "--embd-output-format", "json", "--device", "cpu", *flags)
    done = program("embed", str(model), "-p", text, *flags)
    assert done.returncode == 0, done.stderr
    return [row["embedding"] for row in json.loads(done.stdout)["data"]]


@pytest.mark.parametrize(
    ("name", "pooling", "flags"),
    [
        ("tiny-bert", "cls", ()),
        ("tiny-nomic-bert", "mean", ()),
        ("tiny-gemma-embedding", "mean", ()),
        ("tiny-modern-bert", "mean", ()),
        ("tiny-gemma3", "mean", ("--pooling", "mean")),
        ("tiny-qwen3", "last", ("--pooling", "last")),
    ],
)
def test_vectors_are_the_programs(tiny: Tiny, name: str, pooling: str, flags: "tuple[str, ...]") -> None:
    model = tiny(name)
    with qrun.Embedder(model, pooling=pooling if flags else None, device="cpu") as embedder:
        assert embedder.pooling == pooling
        # An empty text has tokens where the model puts some around it.
        texts = [text for text in TEXTS if embedder.tokenize(text)]
        assert len(texts) == len(TEXTS) - (name == "tiny-qwen3")
        found = embedder.embed(texts)
        assert [len(vector) for vector in found] == [embedder.width] * len(texts)
        for ours, programs in zip(found, the_programs(model, texts, *flags)):
            assert ours == pytest.approx(programs, abs=1e-6)
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
        with pytest.raises(qrun.UsageError, match="text 1 has .*, more than the context of 16; truncate=True .*n_ctx"):
            embedder.embed(["short", TEXTS[3]])
        whole = embedder.tokenize(TEXTS[3])
        assert embedder._tokens(["short", TEXTS[3]], truncate=True) == [embedder.tokenize("short"), whole[:16]]
        (cut,) = embedder.embed([TEXTS[3]], truncate=True)
        assert len(cut) == embedder.width
        # It goes on as before.
        assert embedder.embed(["short", "short"])[0] == embedder.embed("short")
    with qrun.Embedder(tiny("tiny-bert"), n_ctx=16) as embedder:
        # The mark at the end stays there.
        whole = embedder.tokenize(TEXTS[3])
        assert embedder._tokens([TEXTS[3]], truncate=True) == [whole[:15] + whole[-1:]]
    with qrun.Embedder(tiny("tiny-bert"), n_ctx=8192) as embedder:
        # There are no positions beyond those of the file.
        assert embedder.n_ctx == embedder.info()["n_ctx"] == 512


def test_wrong_input_is_said_in_the_calls_words(tiny: Tiny) -> None:
    with pytest.raises(qrun.UsageError, match='pooling="mean"'):
        qrun.Embedder()
    with pytest.raises(qrun.UsageError, match='expected "none", "mean", "cls" or "last", found'):
        qrun.Embedder(pooling="rank")
    with pytest.raises(FileNotFoundError):
        qrun.Embedder("no-such-file.gguf")
    embedder = qrun.Embedder(pooling="mean")
    for odd in (["a", 3], [b"a"], b"a", {"a": 1}, None, 3):
        with pytest.raises(TypeError, match="texts: expected a text or a list of texts, found"):
            embedder.embed(odd)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="did you mean 'n_threads'"):
        qrun.Embedder(threads=1)
    with pytest.raises(qrun.UsageError, match="texts: text 0 is empty"):
        qrun.Embedder(tiny("tiny-qwen3"), pooling="mean").embed("")
    assert embedder.embed([]) == []
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(embedder)
    embedder.close()
    with pytest.raises(qrun.Error, match="closed"):
        embedder.embed("a")
    assert "pooling='mean'" in repr(embedder)
    embedder.close()


def test_threads_take_turns(tiny: Tiny) -> None:
    with qrun.Embedder(tiny("tiny-bert")) as embedder:
        expected = embedder.embed(TEXTS)
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(embedder.embed, TEXTS * 5)) == expected * 5


def test_others_run_while_texts_are_embedded(tiny: Tiny) -> None:
    texts = [f"{i} {TEXTS[3]}" for i in range(200)]
    with qrun.Embedder(tiny("tiny-bert"), n_threads=1) as embedder:
        embedding = threading.Thread(target=embedder.embed, args=(texts,))
        embedding.start()
        slowest, since = 0.0, time.monotonic()
        while embedding.is_alive():
            began = time.monotonic()
            # None of these waits for it.
            assert embedder.tokenize("a") and embedder.width and embedder.n_ctx and repr(embedder)
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < 0.5 * (time.monotonic() - since)


INTERRUPT = """
import os, signal, sys, threading, time
# Whoever starts the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
embedder = qrun.Embedder(sys.argv[1], pooling="mean", n_threads=1, n_ubatch=64)
expected = embedder.embed("Hello")
# A single text of many steps, and more texts than anyone would wait for.
for texts in ["a page table " * 900, ["a page table"] * 1000000]:
    ended = threading.Event()
    def interrupt():
        # As a person does who sees that it goes on.
        for pause in (0.3, 5, 5):
            if not ended.wait(pause):
                os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        while True:
            embedder.embed(texts)
    except KeyboardInterrupt:
        ended.set()
    thread.join()
    print(embedder.embed("Hello") == expected)
"""


def test_sigint_ends_the_work_and_the_embedder_goes_on(tiny: Tiny) -> None:
    done = script(INTERRUPT, str(tiny("tiny-qwen3")))
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nTrue\n", "")


FORK = """
import os, signal, time
embedder = qrun.Embedder(pooling="mean")
vector = embedder.embed("Hello")
child = os.fork()
if child == 0:
    signal.alarm(20)
    said = []
    for call in (lambda: embedder.embed("Hello"), lambda: embedder.tokenize("a")):
        try:
            call()
        except RuntimeError as error:
            said.append("open an embedder in the child" in str(error))
    del call
    embedder.close()
    del embedder
    own = qrun.Embedder(pooling="mean").embed("Hello")
    os._exit(0 if said == [True] * 2 and own == vector else 1)
_, status = os.waitpid(child, 0)
print(status, embedder.embed("Hello") == vector)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_use_after_fork_raises() -> None:
    done = script(FORK)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 True\n", "")


def test_an_embedder_ends_with_the_process() -> None:
    done = script("""
        import threading
        embedder = qrun.Embedder(pooling="mean")
        threading.Thread(target=embedder.embed, args=(["What is a page table?"] * 50,)).start()
        print("done")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


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
    # It begins and ends with what the model puts around a text.
    assert len(llama.tokenize(TEXTS[1].encode())) == 2 + len(llama.tokenize(TEXTS[1].encode(), add_bos=False))
    with pytest.raises(qrun.Error):
        llama("It sees whole texts, and cannot answer")
    llama.close()
    demo = qrun.Llama("demo", embedding=True, pooling_type=1, verbose=False)
    assert demo.pooling_type() == "mean" and len(demo.embed("Hello")) == demo.n_embd()
    # It answers, too.
    assert demo("What is", max_tokens=2)["usage"]["completion_tokens"] == 2
    demo.close()
    # Where neither says how, llama.cpp gives a vector for each token.
    demo = qrun.Llama("demo", embedding=True, verbose=False, n_seq=2, chat_template="chatml")
    assert demo.pooling_type() == "none" and len(demo.embed("Hello")) == len(demo.tokenize(b"Hello"))
    demo.close()
    with pytest.raises(qrun.Error, match="closed"):
        demo("What is")
