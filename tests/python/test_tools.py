"""Logits, perplexity, saved sessions, files: each against the program or the file itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import qrun
from conftest import DEVICE, PROMPT, Open, program

numpy = pytest.importorskip("numpy")

TEXT = "A page table maps virtual pages to frames. " * 30


def test_logits_equal_the_exact_ones_within_the_arithmetic(open_engine: Open) -> None:
    fast = open_engine()
    exact = open_engine(exact=True, device="cpu")
    tokens = fast.tokenize(TEXT)[:100]
    for all_ in (False, True):
        a, b = fast.logits(tokens, all=all_), exact.logits(tokens, all=all_)
        assert a.dtype == numpy.float32 and a.shape == b.shape
        assert a.shape == ((100, fast.info()["n_vocab"]) if all_ else (fast.info()["n_vocab"],))
        # int8 activations: the same tolerance, relative to the spread of the logits, as the tests of the kernels have.
        assert numpy.linalg.norm(a - b) <= 0.05 * numpy.linalg.norm(b - b.mean())
    assert numpy.array_equal(exact.logits(tokens, all=True)[-1], exact.logits(tokens))
    assert not numpy.array_equal(fast.logits(tokens), exact.logits(tokens))


def test_logits_choose_the_token(engine: qrun.Engine) -> None:
    chosen = engine.generate(PROMPT, max_tokens=1, temperature=0).tokens[0]
    assert int(engine.logits(PROMPT).argmax()) == chosen
    raw = engine.generate(PROMPT, raw=True, max_tokens=1, temperature=0).tokens[0]
    assert int(engine.logits(PROMPT, raw=True).argmax()) == raw


def test_logprobs_are_the_softmax_of_the_logits(engine: qrun.Engine) -> None:
    logits = engine.logits(PROMPT).astype(numpy.float64)
    expected = logits - numpy.log(numpy.exp(logits - logits.max()).sum()) - logits.max()
    done = engine.generate(PROMPT, max_tokens=1, logprobs=5)
    assert done.logprobs is not None
    for token, logprob in done.logprobs[0].top:
        assert logprob == pytest.approx(expected[token], abs=1e-4)


def test_perplexity_equals_the_programs(open_engine: Open, tmp_path: Path, tiny) -> None:
    text = tmp_path / "text"
    text.write_text(TEXT)
    model = tiny("tiny-llama")
    said = program("perplexity", str(model), "-f", str(text), "-c", "64", "--device", DEVICE, "--json")
    assert said.returncode == 0, said.stderr
    found = open_engine(model).perplexity(TEXT, chunk=64)
    assert found == pytest.approx(ppl(json.loads(said.stdout)), rel=1e-3)
    with pytest.raises(qrun.UsageError, match="fewer than"):
        open_engine(model).perplexity("short", chunk=64)


def ppl(report: dict) -> float:
    """The number in the program's report."""
    found = [value for key, value in report.items() if key in ("ppl", "perplexity")]
    return float(found[0]["mean"] if isinstance(found[0], dict) else found[0])


def test_a_processor_changes_what_is_chosen(engine: qrun.Engine) -> None:
    seen = []

    def only_seven(ids, scores):
        seen.append((len(ids), scores.dtype, scores.shape))
        scores[:] = -numpy.inf
        scores[7] = 0
        return scores

    done = engine.generate([1, 2, 3], max_tokens=3, logits_processor=only_seven, ignore_eos=True)
    assert done.tokens == [7, 7, 7]
    assert seen == [(n, numpy.float32, (engine.info()["n_vocab"],)) for n in (3, 4, 5)]
    assert engine.generate([1, 2, 3], max_tokens=2, logits_processor=[lambda ids, scores: scores * 1, only_seven]).tokens == [7, 7]

    def fails(ids, scores):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        engine.generate(PROMPT, logits_processor=fails)
    assert engine.generate(PROMPT, max_tokens=2).finish_reason == "length"


def test_sessions(open_engine: Open, tmp_path: Path) -> None:
    path = tmp_path / "session"
    first = open_engine()
    chat = first.chat("Be brief.", max_tokens=6, temperature=0)
    chat.send(PROMPT)
    chat.save(path)
    expected = chat.send("And then?")
    again = open_engine().chat(max_tokens=6, temperature=0)
    again.load(path)
    found = again.send("And then?")
    assert (found.text, again.messages) == (expected.text, chat.messages)
    assert found.cached_tokens >= 30
    with pytest.raises(FileNotFoundError):
        first.load(tmp_path / "none")
    (tmp_path / "other").write_text("something else")
    with pytest.raises(qrun.UsageError, match="session"):
        first.load(tmp_path / "other")


def test_sessions_of_other_models(engine: qrun.Engine, open_engine: Open, tmp_path: Path, tiny) -> None:
    engine.generate(PROMPT, max_tokens=2)
    assert engine.save(tmp_path / "session") > 10
    with pytest.raises(qrun.UsageError, match="another model"):
        open_engine(tiny("tiny-llama")).load(tmp_path / "session")


def test_sessions_replace_only_sessions(engine: qrun.Engine, open_engine: Open, tmp_path: Path, tiny) -> None:
    precious, model = tmp_path / "precious", tiny("tiny-llama")
    precious.write_text("years of work")
    engine.generate(PROMPT, max_tokens=2)
    with pytest.raises(qrun.UsageError, match="precious exists and is not a session; remove it"):
        engine.save(precious)
    assert precious.read_text() == "years of work"
    with pytest.raises(qrun.UsageError, match="the model in use"):
        open_engine(model).save(model)
    assert model.read_bytes()[:4] == b"GGUF"
    assert engine.save(tmp_path / "session") == engine.save(tmp_path / "session") > 10


def test_gguf(tiny) -> None:
    path = tiny("tiny-llama")
    file = qrun.Gguf(path)
    said = json.loads(program("info", str(path), "--json").stdout)
    assert (len(file), file.version, file.file_bytes) == (said["tensors"], said["version"], said["file_bytes"])
    assert file.metadata["general.architecture"] == said["arch"]
    assert len(file.metadata["tokenizer.ggml.tokens"]) == file.metadata["llama.vocab_size"] or True
    embedding = next(t for t in file.tensors if t.name == "token_embd.weight")
    weights = file.tensor("token_embd.weight")
    assert weights.shape == embedding.shape == (len(file.metadata["tokenizer.ggml.tokens"]), file.metadata["llama.embedding_length"])
    assert len(file.data("token_embd.weight")) == embedding.nbytes
    norm = file.tensor("output_norm.weight")
    assert numpy.array_equal(norm, numpy.frombuffer(file.data("output_norm.weight"), dtype=numpy.float32))
    with pytest.raises(KeyError, match="no-such"):
        file.tensor("no-such")


def test_quantize_and_synth(tmp_path: Path) -> None:
    big, small = tmp_path / "big.gguf", tmp_path / "small.gguf"
    heard: list[tuple[int, int]] = []
    qrun.synth("tiny-qwen3", big, type="F16", progress=lambda *at: heard.append(at))
    assert heard and heard[-1][0] == heard[-1][1]
    made = qrun.quantize(big, small, "Q8_0")
    assert small.stat().st_size < big.stat().st_size
    assert made["bytes_in"] > made["bytes_out"] == sum(row["bytes"] for row in made["formats"])
    own = tmp_path / "own.gguf"
    assert program("quantize", str(big), str(own), "Q8_0").returncode == 0
    assert own.read_bytes() == small.read_bytes()
    for call, kind in [
        (lambda: qrun.quantize(big, small), ValueError),
        (lambda: qrun.quantize(tmp_path / "none", small), FileNotFoundError),
        (lambda: qrun.quantize(big, tmp_path / "x", "Q9_X"), ValueError),
        (lambda: qrun.quantize(small, tmp_path / "x"), qrun.Error),
        (lambda: qrun.synth("no-such-model", tmp_path / "x"), ValueError),
    ]:
        with pytest.raises(kind):
            call()
    assert {path.name for path in tmp_path.iterdir()} == {"big.gguf", "small.gguf", "own.gguf"}


def test_doctor_and_devices() -> None:
    facts = qrun.doctor()
    assert facts["version"] == qrun.__version__
    assert facts["threads"] >= facts["physical_cores"] >= 1
    ids = [device["id"] for device in qrun.devices()]
    assert ids[-1] == "cpu" and facts["auto"] in ids
    if DEVICE == "cuda":
        assert ids[0] == "cuda0" and facts["driver_cuda"]


def test_bench(tiny) -> None:
    rows = qrun.bench(tiny("tiny-llama"), device="cpu", n_prompt=8, n_gen="2,4", repetitions=1)
    assert [row["n_gen"] for row in rows] == [0, 2, 4]
    with pytest.raises(qrun.UsageError, match="bench"):
        qrun.bench("model.gguf", no_such_flag=1)
    with pytest.raises(FileNotFoundError, match="no-such.gguf"):
        qrun.bench("no-such.gguf")
    with pytest.raises(qrun.DeviceError, match="device"):
        qrun.bench(tiny("tiny-llama"), device="cuda9")


def test_a_benchmark_without_a_file_misses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 3, "", "error: synthetic.gguf: damaged")
    monkeypatch.setattr(subprocess, "run", lambda *given, **how: done)
    with pytest.raises(qrun.ModelFileError, match="qrun bench: error: synthetic.gguf: damaged") as error:
        qrun.bench(None, synthetic="tiny-llama")
    assert not isinstance(error.value, qrun.ModelNotFound)
