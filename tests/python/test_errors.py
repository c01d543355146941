"""What goes wrong comes as an exception of the kind that fits, and nothing is written anywhere."""

from __future__ import annotations

import os
import pickle
import re
import warnings
from pathlib import Path

import pytest
import qrun
from conftest import DEVICE, PROMPT, Open, script
from qrun import _qrun


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda e: qrun.Engine("no-such.gguf"), FileNotFoundError, "no-such.gguf"),
        (lambda e: qrun.Engine("no-such.gguf"), qrun.ModelNotFound, "no such file"),
        (lambda e: qrun.Engine(__file__), qrun.ModelFileError, "test_errors.py"),
        (lambda e: qrun.Engine(nctx=5), TypeError, "'n_ctx'"),
        (lambda e: qrun.Engine(n_ctx="many"), TypeError, "n_ctx: expected a whole number, found 'many'"),
        (lambda e: qrun.Engine(n_ctx=-1), ValueError, "n_ctx"),
        (lambda e: qrun.Engine(device="gpu7"), qrun.UsageError, "gpu7"),
        (lambda e: qrun.Engine(cache_type_k="f15"), ValueError, "f16"),
        (lambda e: qrun.Engine(chat_template="no-such-template"), qrun.TemplateError, "no-such-template"),
        (lambda e: qrun.Engine(n_ctx=10**12, device="cpu"), MemoryError, "largest context"),
        (lambda e: e.generate(PROMPT, temprature=0), TypeError, "did you mean 'temperature'"),
        (lambda e: e.generate(PROMPT, max_tokens=1, n_predict=2), TypeError, "twice"),
        (lambda e: e.generate(PROMPT, temperature="hot"), TypeError, "temperature: expected a number, found 'hot'"),
        (lambda e: e.generate(PROMPT, min_p=7), ValueError, "min-p"),
        (lambda e: e.generate(PROMPT, top_p=float("nan")), ValueError, "top-p"),
        (lambda e: e.generate(PROMPT, logit_bias={10**8: 1}), ValueError, "logit-bias"),
        (lambda e: e.generate([10**7]), ValueError, "token 10000000"),
        (lambda e: e.generate([1] * 600), ValueError, "600 tokens"),
        (lambda e: e.generate([]), ValueError, "empty"),
        (lambda e: e.generate({"role": "user"}), TypeError, "list of messages"),
        (lambda e: e.generate([{"content": "x"}]), ValueError, "role"),
        (lambda e: e.generate(b"text"), TypeError, "found bytes"),
        (lambda e: e.batch("text"), TypeError, "found a text"),
        (lambda e: e.batch(None), TypeError, "found NoneType"),
        (lambda e: e.chat(temprature=0), TypeError, "did you mean 'temperature'"),
        (lambda e: e.generate(5), TypeError, "found int"),
        (lambda e: e.generate(None), TypeError, "found NoneType"),
        (lambda e: e.generate(["One?", "Two?"]), TypeError, "batch answers several"),
        (lambda e: e.generate([1, 2.5]), TypeError, "prompt: expected whole numbers, found 2.5"),
        (lambda e: e.generate([1, -2]), ValueError, "prompt: expected tokens from 0 on, found -2"),
        (lambda e: e.detokenize([2**40]), ValueError, "tokens: expected tokens from 0 on, found 1099511627776"),
        (lambda e: e.generate(PROMPT, stop=5), TypeError, "stop: expected a list of texts, found 5"),
        (lambda e: e.generate(PROMPT, logit_bias="x"), TypeError, "logit_bias: expected a dict"),
        (lambda e: e.generate(PROMPT, json_schema="{"), ValueError, "json_schema: expected JSON"),
        (lambda e: qrun.Engine(n_threads=10**6), ValueError, "n_threads: expected 0 to 1024, found 1000000"),
        (lambda e: qrun.Engine(n_seq=10**6), ValueError, "n_seq: expected 1 to 1024"),
        (lambda e: e.generate("\ud800"), ValueError, "surrogates"),
        (lambda e: e.batch([PROMPT] * 3, seed=[1, 2]), TypeError, "3 prompts"),
        (lambda e: e.generate(PROMPT, stop=["x"] * 300), ValueError, "stop"),
        (lambda e: e.chat().undo(), ValueError, "nothing was sent"),
        (lambda e: _qrun._panic(), BaseException, "as the tests ask"),
    ],
)
def test_errors(call, kind: type[BaseException], says: str, engine: qrun.Engine, capfd) -> None:
    with pytest.raises(kind, match=re.escape(says)):
        call(engine)
    assert engine.generate(PROMPT, max_tokens=2).finish_reason == "length"
    assert capfd.readouterr() == ("", "")


def test_a_panic_of_the_engine_is_an_exception(open_engine: Open, capfd) -> None:
    engine = open_engine()
    stream = engine.stream(PROMPT, ignore_eos=True)
    next(stream)
    _qrun._panic(engine._native)
    stream.cancel()
    with pytest.raises(qrun.Error, match="as the tests ask for"):
        for _ in range(3):
            engine.generate(PROMPT, max_tokens=1)
    engine.close()
    assert capfd.readouterr() == ("", "")


def test_pickling(engine: qrun.Engine, open_engine: Open, tiny, tmp_path: Path) -> None:
    done = engine.generate(PROMPT, max_tokens=3, logprobs=2)
    again = pickle.loads(pickle.dumps(done))
    assert again == done and again.logprobs == done.logprobs and again is not done
    with pytest.raises(AttributeError):
        done.text = "other"
    with pytest.raises(TypeError, match="demo model"):
        pickle.dumps(engine)
    model = tiny("tiny-llama")
    with pytest.raises(TypeError, match=re.escape(str(model))):
        pickle.dumps(open_engine(model))
    path = tmp_path / "a-model.gguf"
    with pytest.raises(qrun.ModelNotFound) as error:
        qrun.Engine(path)
    assert error.value.filename == str(path) and error.value.errno == 2
    copy = pickle.loads(pickle.dumps(error.value))
    assert type(copy) is qrun.ModelNotFound and copy.filename == str(path)


def test_exceptions_fit_pythons_own() -> None:
    pairs = [
        (qrun.UsageError, ValueError),
        (qrun.ModelNotFound, FileNotFoundError),
        (qrun.OutOfMemory, MemoryError),
        (qrun.DownloadError, OSError),
        (qrun.GatedModel, qrun.DownloadError),
        (qrun.Unsupported, NotImplementedError),
    ]
    for ours, theirs in pairs:
        assert issubclass(ours, theirs) and issubclass(ours, qrun.Error) and issubclass(ours, RuntimeError)
        assert ours.__module__ == "qrun"


def test_nothing_is_written() -> None:
    done = script(
        """
        engine = qrun.Engine(device=DEVICE, n_ctx=256)
        engine.generate("Hello", max_tokens=5)
        list(engine.stream("Hello", max_tokens=5))
        engine.close()
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(DEVICE != "cpu", reason="this run has a GPU")
def test_no_warning_where_there_is_no_gpu() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with qrun.Engine(n_ctx=256) as engine:
            assert engine.info()["device"] == "cpu"
            engine.generate(PROMPT, max_tokens=1)
    with pytest.raises(qrun.DeviceError):
        qrun.Engine(device="cuda")


@pytest.mark.skipif(DEVICE != "cuda" or "QRUN_EMULATOR" not in os.environ, reason="needs the emulated driver")
def test_a_gpu_that_is_given_up_is_a_warning_of_the_caller() -> None:
    done = script(
        """
        import warnings
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            engine = qrun.Engine(n_ctx=256)
        print(len(heard), heard[0].category is qrun.DeviceWarning, heard[0].filename, "GPU" in str(heard[0].message))
        print(engine.info()["device"])
        """,
        env={**os.environ, "QRUN_EMULATOR": "sm=75,memory=1m"},
    )
    assert (done.stdout, done.stderr) == ("1 True <string> True\ncpu\n", "")
