"""`qrun.Llama` against llama-cpp-python: its shapes and signatures as `shapes/record.py` recorded them, and the answers."""

from __future__ import annotations

import importlib.util
import json
import logging
import pickle
from pathlib import Path
from typing import Any, Iterator

import pytest

import qrun
from conftest import DEVICE
from qrun import _arguments

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "models/demo/qrun-demo-Q4_K_M.gguf"

_spec = importlib.util.spec_from_file_location("record", HERE / "shapes/record.py")
assert _spec is not None and _spec.loader is not None
record = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(record)

PROMPT = record.PROMPT
GREEDY = {"temperature": 0.0, "max_tokens": 12}


@pytest.fixture(scope="module")
def llama() -> Iterator[qrun.Llama]:
    opened = qrun.Llama("demo", verbose=False, logits_all=True, device=DEVICE)
    assert opened._engine.info()["device"].startswith(DEVICE)
    yield opened
    opened.close()


def recorded(name: str) -> Any:
    return json.loads((HERE / f"shapes/{name}.json").read_text())


@pytest.mark.parametrize("name", record.ASKS)
def test_an_answer_has_llama_cpp_pythons_keys_and_types(llama: qrun.Llama, name: str) -> None:
    if "echo" in name:
        pytest.importorskip("numpy")
    assert record.shape(record.ASKS[name](llama)) == recorded(name)


@pytest.mark.parametrize("method", record.METHODS)
def test_a_method_has_llama_cpp_pythons_parameters(method: str) -> None:
    ours, theirs = record.signature(getattr(qrun.Llama, method)), recorded("signatures")[method]
    differs = {name: (a, b) for (name, *a), (_, *b) in zip(ours, theirs) if a != b}
    assert [p[0] for p in ours] == [p[0] for p in theirs]
    # The one default that differs: as much context as fits.
    assert differs == ({"n_ctx": (["KEYWORD_ONLY", "0"], ["KEYWORD_ONLY", "512"])} if method == "__init__" else {})


def test_greedy_text_is_the_engines(llama: qrun.Llama) -> None:
    engine = qrun.Engine(device=DEVICE)
    expected = engine.generate("What is qrun?", **GREEDY)
    whole = llama(PROMPT.replace("<bos>", ""), **GREEDY)
    assert whole["choices"][0]["text"] == expected.text
    assert whole["choices"][0]["finish_reason"] == expected.finish_reason
    assert whole["usage"]["prompt_tokens"] == expected.prompt_tokens
    chat = llama.create_chat_completion(record.MESSAGES, **GREEDY)
    assert chat["choices"][0]["message"]["content"] == expected.text
    assert (
        llama.create_completion(llama.tokenize(PROMPT.encode(), special=True), **GREEDY)["choices"] == whole["choices"]
    )


def test_chunks_are_the_whole(llama: qrun.Llama) -> None:
    whole = llama(PROMPT, logprobs=2, **GREEDY)["choices"][0]
    chunks = [chunk["choices"][0] for chunk in llama(PROMPT, logprobs=2, stream=True, **GREEDY)]
    assert len(chunks) > 3
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    for key in ("tokens", "token_logprobs", "text_offset"):
        joined = [value for chunk in chunks if chunk["logprobs"] for value in chunk["logprobs"][key]]
        assert joined == whole["logprobs"][key], key
    assert "".join(whole["logprobs"]["tokens"]) == whole["text"]
    assert whole["logprobs"]["text_offset"][0] == len(PROMPT)
    said = [c["choices"][0]["delta"] for c in llama.create_chat_completion(record.MESSAGES, stream=True, **GREEDY)]
    assert said[0] == {"role": "assistant"} and said[-1] == {}
    assert "".join(delta.get("content", "") for delta in said) == whole["text"]


def test_a_token_that_ends_the_turn_is_not_counted(llama: qrun.Llama) -> None:
    done = llama(PROMPT, temperature=0.0, max_tokens=None, logprobs=0)
    choice, n = done["choices"][0], done["usage"]["completion_tokens"]
    assert choice["finish_reason"] == "stop" and n == len(choice["logprobs"]["tokens"]) > 12
    assert done["usage"]["total_tokens"] == n + done["usage"]["prompt_tokens"]
    for limit in (0, -1):
        assert llama(PROMPT, temperature=0.0, max_tokens=limit)["choices"][0]["text"] == choice["text"]
    stopped = llama(PROMPT, temperature=0.0, max_tokens=None, stop="small")["choices"][0]
    assert stopped["text"] == choice["text"].split("small")[0] and stopped["finish_reason"] == "stop"


def test_echo_bias_and_seed(llama: qrun.Llama) -> None:
    plain = llama(PROMPT, **GREEDY)["choices"][0]["text"]
    assert llama(PROMPT, echo=True, **GREEDY)["choices"][0]["text"] == PROMPT + plain
    first = llama.tokenize(plain.encode(), add_bos=False)[0]
    assert llama(PROMPT, logit_bias={first: -100.0}, **GREEDY)["choices"][0]["text"] != plain
    hot = {"temperature": 1.5, "max_tokens": 24, "min_p": 0.0}
    texts = {llama("Once upon", seed=seed, **hot)["choices"][0]["text"] for seed in (1, 1, 2, 3, 4)}
    assert 2 <= len(texts) <= 4
    runs = []
    for _ in range(2):
        llama.set_seed(7)
        runs.append([llama("Once upon", **hot)["choices"][0]["text"] for _ in range(3)])
    assert runs[0] == runs[1] and len(set(runs[0])) > 1


def test_echoed_tokens_have_logprobs(llama: qrun.Llama) -> None:
    numpy = pytest.importorskip("numpy")
    found = llama(PROMPT, echo=True, logprobs=1, **GREEDY)["choices"][0]["logprobs"]
    tokens = llama.tokenize(PROMPT.encode(), special=True)
    rows = llama.logits_to_logprobs(llama._engine.logits(tokens, all=True))
    assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None and found["text_offset"][0] == 0
    assert numpy.isclose(found["token_logprobs"][1], rows[1][tokens[2]], atol=1e-4)


REFUSED: "list[tuple[str, dict[str, Any]]]" = [
    ("lora_path", {"lora_path": "a.gguf"}),
    ("lora_base", {"lora_base": "a.gguf"}),
    ("draft_model", {"draft_model": object()}),
    ("rope_scaling_type", {"rope_scaling_type": 2}),
    ("rope_freq_base", {"rope_freq_base": 1e6}),
    ("rope_freq_scale", {"rope_freq_scale": 0.5}),
    ("yarn_ext_factor", {"yarn_ext_factor": 1.0}),
    ("yarn_attn_factor", {"yarn_attn_factor": 2.0}),
    ("yarn_beta_fast", {"yarn_beta_fast": 1.0}),
    ("yarn_beta_slow", {"yarn_beta_slow": 2.0}),
    ("yarn_orig_ctx", {"yarn_orig_ctx": 4096}),
    ("tensor_split", {"tensor_split": [0.5, 0.5]}),
    ("split_mode", {"split_mode": 2}),
    ("pooling_type", {"pooling_type": 4}),
    ("attention_type", {"attention_type": 1}),
    ("spm_infill", {"spm_infill": True}),
    ("chat_format", {"chat_format": "chatml"}),
    ("chat_handler", {"chat_handler": object()}),
    ("tokenizer", {"tokenizer": object()}),
    ("kv_overrides", {"kv_overrides": {"a": 1}}),
    ("vocab_only", {"vocab_only": True}),
    ("type_k", {"type_k": 2}),
    ("type_v", {"type_v": 2}),
]


@pytest.mark.parametrize("name, given", REFUSED)
def test_what_would_change_the_text_is_refused_at_the_start(name: str, given: "dict[str, Any]") -> None:
    with pytest.raises(qrun.Unsupported, match=f"{name}=.*: .{{10}}"):
        qrun.Llama("demo", verbose=False, **given)


@pytest.mark.parametrize(
    "name, value",
    [
        ("suffix", "end"),
        ("tfs_z", 0.9),
        ("mirostat_mode", 2),
        ("stopping_criteria", [lambda ids, logits: True]),
    ],
)
def test_what_would_change_the_text_is_refused_in_a_call(llama: qrun.Llama, name: str, value: Any) -> None:
    with pytest.raises(qrun.Unsupported, match=f"{name}=.*: .{{10}}"):
        llama("Hello", **{name: value})
    if name not in ("suffix", "stopping_criteria"):
        with pytest.raises(qrun.Unsupported, match=f"{name}="):
            llama.create_chat_completion(record.MESSAGES, **{name: value})


@pytest.mark.parametrize(
    "given",
    [{"functions": [{}]}, {"function_call": {"name": "f"}}],
)
def test_what_a_chat_refuses(llama: qrun.Llama, given: "dict[str, Any]") -> None:
    with pytest.raises(qrun.Unsupported, match=next(iter(given))):
        llama.create_chat_completion(record.MESSAGES, **given)
    answer = llama.create_chat_completion(record.MESSAGES, response_format={"type": "text"}, **GREEDY)
    assert answer["choices"][0]["message"]["content"]


def test_a_grammar_holds(llama: qrun.Llama) -> None:
    class LlamaGrammar:
        _grammar = 'root ::= "yes" | "no"'

    for grammar in (LlamaGrammar._grammar, LlamaGrammar()):
        assert llama(PROMPT, max_tokens=8, grammar=grammar)["choices"][0]["text"] in ("yes", "no")
        chat = llama.create_chat_completion(record.MESSAGES, max_tokens=8, grammar=grammar)
        assert chat["choices"][0]["message"]["content"] in ("yes", "no")
    with pytest.raises(TypeError, match="grammar: expected GBNF"):
        llama(PROMPT, grammar=object())
    for step in (lambda: llama.sample(grammar="x"), lambda: llama.generate([2], grammar="x")):
        with pytest.raises(qrun.Unsupported, match="create_completion"):
            step()


def test_a_schema_holds(llama: qrun.Llama) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "boolean"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    formats = [
        {"type": "json_object", "schema": schema},
        {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    ]
    for form in formats:
        answer = llama.create_chat_completion(record.MESSAGES, max_tokens=64, temperature=0.0, response_format=form)
        assert list(json.loads(answer["choices"][0]["message"]["content"])) == ["n"]


def test_what_is_not_there_says_so(llama: qrun.Llama) -> None:
    with pytest.raises(qrun.Unsupported):
        llama.sample(idx=0)
    for call in (lambda: llama.embed("a"), lambda: llama.create_embedding("a")):
        with pytest.raises(qrun.UsageError, match="embedding=True"):
            call()
    with pytest.raises(qrun.Unsupported, match="local_dir"):
        qrun.Llama.from_pretrained("user/repo", "*.gguf", local_dir=".")
    with pytest.raises(TypeError, match="n_sequence.*n_seq"):
        qrun.Llama("demo", verbose=False, n_sequence=2)
    with pytest.raises(FileNotFoundError):
        qrun.Llama("no-such-file.gguf", verbose=False)


def test_what_has_no_effect_is_said_once_and_never_on_stdout(caplog: Any, capfd: Any) -> None:
    given = {"use_mlock": True, "flash_attn": True, "n_threads_batch": 2, "numa": True, "offload_kqv": False}
    _arguments._said.clear()
    with caplog.at_level(logging.WARNING, "qrun"):
        qrun.Llama("demo", verbose=False, **given).close()
        assert caplog.messages == []
        for _ in range(2):
            qrun.Llama("demo", **given).close()
    assert sorted(message.split()[1] for message in caplog.messages) == sorted(given)
    assert capfd.readouterr().out == ""


def test_tokens_and_bytes(llama: qrun.Llama) -> None:
    text = "Grüße, 世界 🌍\n".encode()
    tokens = llama.tokenize(text, add_bos=False)
    assert llama.detokenize(tokens) == text
    assert llama.tokenize(text)[0] == llama.token_bos() and llama.detokenize(llama.tokenize(text)) == text
    assert b"".join(llama.detokenize([t], tokens[:i]) for i, t in enumerate(tokens)) == text
    marks = llama.tokenize(b"<start_of_turn>", add_bos=False, special=True)
    assert (
        len(marks) == 1
        and llama.detokenize(marks) == b""
        and llama.detokenize(marks, special=True) == b"<start_of_turn>"
    )
    assert llama.tokenize(b"\n", add_bos=False)[-1] == llama.token_nl()
    info = llama._engine.info()
    assert (llama.n_vocab(), llama.n_embd(), llama.n_ctx()) == (info["n_vocab"], info["n_embd"], info["n_ctx"])
    assert llama.token_eos() == info["eos"]


def test_token_by_token_is_the_same_text(llama: qrun.Llama) -> None:
    expected = llama(PROMPT, temperature=0.0, max_tokens=8)["choices"][0]["text"]
    prompt = llama.tokenize(PROMPT.encode(), special=True)
    drawn = llama.generate(prompt, temp=0.0)
    tokens = [next(drawn) for _ in range(8)]
    drawn.close()
    assert llama.detokenize(tokens).decode() == expected
    assert list(llama.eval_tokens) == prompt + tokens and llama.n_tokens == len(prompt) + 8
    llama.reset()
    llama.eval(prompt)
    stepped = []
    for _ in range(3):
        stepped.append(llama.sample(temp=0.0))
        llama.eval(stepped[-1:])
    assert stepped == tokens[:3]
    # Tokens that are sent in go behind what there is.
    sent = llama.tokenize(b" a very", add_bos=False)
    drawn = llama.generate(prompt, temp=0.0)
    first = next(drawn)
    drawn.send(sent)
    assert list(llama.eval_tokens)[: len(prompt) + 1 + len(sent)] == [*prompt, first, *sent]


def test_scores_are_the_logits(llama: qrun.Llama) -> None:
    numpy = pytest.importorskip("numpy")
    llama.reset()
    llama.eval(llama.tokenize(PROMPT.encode(), special=True))
    assert llama.scores.shape == (llama.n_tokens, llama.n_vocab())
    assert int(numpy.argmax(llama.scores[-1])) == llama.sample(temp=0.0)
    assert len(llama.eval_logits) == llama.n_tokens
    logprobs = qrun.Llama.logits_to_logprobs(llama.scores)
    assert numpy.allclose(numpy.exp(logprobs).sum(axis=-1), 1.0, atol=1e-4)


def test_a_state_can_be_saved_and_loaded(llama: qrun.Llama) -> None:
    prompt = llama.tokenize(PROMPT.encode(), special=True)
    llama.reset()
    llama.eval(prompt)
    expected, state = llama.sample(temp=0.0), llama.save_state()
    llama.reset()
    llama.load_state(pickle.loads(pickle.dumps(state)))
    assert list(llama.eval_tokens) == prompt and state.n_tokens == len(prompt) and llama.sample(temp=0.0) == expected


def test_the_metadata_is_llama_cpps_text() -> None:
    opened = qrun.Llama(MODEL, verbose=False)
    assert opened.model_path == str(MODEL)
    expected = {
        "general.architecture": "gemma3",
        "general.file_type": "15",
        "gemma3.context_length": "2048",
        "gemma3.rope.freq_base": "1000000.000000",
        "tokenizer.ggml.add_bos_token": "true",
        "tokenizer.ggml.add_eos_token": "false",
    }
    assert {key: opened.metadata.get(key) for key in expected} == expected
    assert (
        "tokenizer.ggml.tokens" not in opened.metadata and opened.metadata == qrun.Llama("demo", verbose=False).metadata
    )


def test_it_can_be_pickled_by_its_arguments_and_closed() -> None:
    opened = qrun.Llama("demo", n_ctx=128, verbose=False, device=DEVICE)
    again = pickle.loads(pickle.dumps(opened))
    assert again.n_ctx() == 128 and again(PROMPT, **GREEDY)["choices"] == opened(PROMPT, **GREEDY)["choices"]
    opened.close()
    with pytest.raises(qrun.Error):
        opened(PROMPT)


def test_logits_processors_choose(llama: qrun.Llama) -> None:
    pytest.importorskip("numpy")
    token = llama.tokenize(b" is", add_bos=False)[0]

    def only(ids: Any, logits: Any) -> Any:
        logits = logits.copy()
        logits[:] = float("-inf")
        logits[token] = 0.0
        return logits

    assert llama(PROMPT, max_tokens=3, logits_processor=[only])["choices"][0]["text"] == " is" * 3
