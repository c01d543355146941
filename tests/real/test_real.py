"""Two trained models beside transformers in f32 (expected.json, made by expected.py), and beside themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qrun
from minilm import main as write_minilm
from models import AT, HERE, LINES, QUESTIONS, SENTENCES, TEXT, minilm, smollm2

DEVICE = os.environ.get("QRUN_TEST_DEVICE", "cpu")
EXPECTED = json.loads((HERE / "expected.json").read_text())
CHAT = EXPECTED["smollm2"]
ON_CPU = pytest.mark.skipif(DEVICE != "cpu", reason="compares arithmetics of the CPU")


def smol(**options: Any) -> qrun.Engine:
    return qrun.Engine(smollm2(), **{"device": DEVICE, "n_ctx": 512, **options})


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.fixture(scope="module")
def exact() -> np.ndarray:
    """Logits of all tokens of the text in exact arithmetic."""
    with smol(exact=True, device="cpu") as engine:
        return engine.logits(CHAT["text"], all=True)


def test_tokens_are_those_of_the_models_tokenizer() -> None:
    with smol() as engine:
        assert [engine.tokenize(line, add_special=False) for line in LINES] == CHAT["lines"]
        assert engine.tokenize(TEXT, add_special=False) == CHAT["text"]
        assert engine.detokenize(CHAT["text"], special=True) == TEXT
        for question, chat in zip(QUESTIONS, CHAT["chats"], strict=True):
            messages = [{"role": "user", "content": question}]
            assert engine.apply_chat_template(messages, tokenize=True) == chat["prompt"]


@ON_CPU
def test_exact_logits_are_those_of_transformers(exact: np.ndarray) -> None:
    # Largest logits are about 30; the order of a sum is what differs.
    np.testing.assert_allclose(np.take_along_axis(exact[AT], np.array(CHAT["best"]), 1), CHAT["logits"], rtol=0, atol=2e-3)
    scores = log_softmax(exact)
    of_next = scores[np.arange(len(scores) - 1), CHAT["text"][1:]]
    assert abs(-of_next.mean() - CHAT["nll"]) < 1e-5
    sums = exact[AT].max(-1) - scores[AT].max(-1)
    np.testing.assert_allclose(sums, CHAT["logsumexp"], rtol=0, atol=2e-3)


@ON_CPU
def test_exact_answers_are_those_of_transformers() -> None:
    with smol(exact=True) as engine:
        for question, chat in zip(QUESTIONS, CHAT["chats"], strict=True):
            stop = 2  # <|im_end|>
            expected = chat["answer"][: chat["answer"].index(stop)] if stop in chat["answer"] else chat["answer"]
            assert engine.generate(question, max_tokens=24, temperature=0).tokens[: len(expected)] == expected


def test_fast_arithmetic_is_near(exact: np.ndarray) -> None:
    """As near as llama.cpp's, whose mean divergence on such a text is 0.0025: int8 activations are what costs."""
    n = len(exact) if DEVICE == "cpu" else 40
    with smol() as engine:
        fast = log_softmax(engine.logits(CHAT["text"][:n], all=True))
    true = log_softmax(exact[:n])
    divergence = (np.exp(true) * (true - fast)).sum(-1)
    assert divergence.mean() < 0.005, divergence.mean()
    assert divergence.max() < 0.1, divergence.max()
    nexts = (np.arange(n - 1), CHAT["text"][1:n])
    assert abs(true[nexts].mean() - fast[nexts].mean()) < 0.02


@ON_CPU
def test_the_bits_are_the_same_however_it_is_computed() -> None:
    text = CHAT["text"][:120]
    with smol() as engine:
        expected = engine.logits(text, all=True)
        alone = [engine.generate(q, max_tokens=16, temperature=0).tokens for q in QUESTIONS]
        assert [c.tokens for c in engine.batch(QUESTIONS, max_tokens=16, temperature=0)] == alone
    for options in ({"n_ubatch": 7}, {"n_ubatch": 1}, {"n_threads": 1}):
        with smol(**options) as engine:
            np.testing.assert_array_equal(engine.logits(text, all=True), expected, err_msg=str(options))


@ON_CPU
def test_embeddings_are_those_of_transformers(tmp_path: Path) -> None:
    file = tmp_path / "all-MiniLM-L6-v2.gguf"
    write_minilm(minilm(), file)
    vectors = np.array([row["vector"] for row in EXPECTED["minilm"]])
    for exact, bound in ((True, 2e-6), (False, 5e-4)):
        with qrun.Embedder(file, exact=exact, device="cpu") as embedder:
            assert [embedder.tokenize(s) for s in SENTENCES] == [row["tokens"] for row in EXPECTED["minilm"]]
            found = np.array(embedder.embed(SENTENCES))
            np.testing.assert_allclose(found, vectors, rtol=0, atol=bound)


def test_fast_embeddings_are_near(tmp_path: Path) -> None:
    file = tmp_path / "all-MiniLM-L6-v2.gguf"
    write_minilm(minilm(), file)
    vectors = np.array([row["vector"] for row in EXPECTED["minilm"]])
    with qrun.Embedder(file, device=DEVICE) as embedder:
        np.testing.assert_allclose(np.array(embedder.embed(SENTENCES)), vectors, rtol=0, atol=5e-4)
