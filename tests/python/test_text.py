"""Answers are the program's, whichever way they are asked for."""

from __future__ import annotations

import asyncio

import pytest
import qrun
from conftest import DEVICE, PROMPT, Open, program

MODELS = ["demo", "tiny-llama", "tiny-gemma3", "tiny-qwen3"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("raw", [False, True])
def test_greedy_text_equals_the_programs(name: str, raw: bool, open_engine: Open, tiny) -> None:
    model = None if name == "demo" else tiny(name)
    answer = open_engine(model).generate(PROMPT, raw=raw, max_tokens=24, temperature=0)
    flags = [] if model is None else ["-m", str(model)]
    flags += ["-no-cnv"] if raw else []
    said = program(*flags, "-p", PROMPT, "-n", "24", "--temp", "0", "-c", "512", "--device", DEVICE, "--no-display-prompt")
    assert said.returncode == 0, said.stderr
    assert answer.text.rstrip("\n") == said.stdout.rstrip("\n")
    assert len(answer.tokens) == 24 or answer.finish_reason == "stop"


def test_all_ways_give_the_same(engine: qrun.Engine) -> None:
    how = {"max_tokens": 16, "seed": 7}
    expected = engine.generate(PROMPT, **how)
    message = [{"role": "user", "content": PROMPT}]
    text = engine.apply_chat_template(message)
    assert isinstance(text, str)
    tokens = engine.apply_chat_template(message, tokenize=True)
    same = [
        engine.generate(message, **how).text,
        engine.generate(text, raw=True, **how).text,
        engine.generate(tokens, **how).text,
        "".join(engine.stream(PROMPT, **how)),
        asyncio.run(engine.agenerate(PROMPT, **how)).text,
        engine.batch([PROMPT], **how)[0].text,
        engine.chat(**how).send(PROMPT).text,
    ]
    assert same == [expected.text] * len(same)
    assert engine.detokenize(expected.tokens) == expected.text
    assert expected.prompt_tokens == len(tokens)
    assert (expected.seed, expected.finish_reason, expected.stop) == (7, "length", None)


def test_a_batch_is_what_each_is_alone(open_engine: Open) -> None:
    engine = open_engine(n_seq=4)
    prompts = [PROMPT, "Write a haiku.", [1, 2, 3], [{"role": "user", "content": "Count."}], "Why?"]
    alone = [engine.generate(prompt, max_tokens=12, temperature=0).text for prompt in prompts]
    together = engine.batch(prompts, max_tokens=12, temperature=0)
    assert [done.text for done in together] == alone
    limits = engine.batch(prompts, max_tokens=[1, 2, 3, 4, 5], temperature=0, ignore_eos=True, stop=["never said by anyone"])
    assert [len(done.tokens) for done in limits] == [1, 2, 3, 4, 5]


def test_tokens_and_text(engine: qrun.Engine) -> None:
    for text in ["", "a page table", "Ünïcode 漢字 🙂", " spaces  and\n\nlines "]:
        tokens = engine.tokenize(text, add_special=False)
        assert engine.detokenize(tokens) == text
        assert b"".join(engine.pieces(tokens)).decode() == text


def test_stop_texts_and_limits(engine: qrun.Engine) -> None:
    whole = engine.generate(PROMPT, max_tokens=40, temperature=0)
    stop = whole.text[10:14]
    cut = engine.generate(PROMPT, max_tokens=40, temperature=0, stop=stop)
    assert (cut.finish_reason, cut.stop) == ("stop", stop)
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert engine.generate(PROMPT, max_tokens=0).tokens == []


def test_penalties_bias_and_other_names(engine: qrun.Engine) -> None:
    how = {"max_new_tokens": 8, "temperature": 0}
    plain = engine.generate(PROMPT, **how)
    first = plain.tokens[0]
    forbidden = engine.generate(PROMPT, logit_bias={first: False}, **how)
    assert forbidden.tokens[0] != first
    assert engine.generate(PROMPT, n_predict=8, do_sample=False, repetition_penalty=1.0).text == plain.text
    other = [token for token in (5, 6) if token != first][0]
    assert engine.generate(PROMPT, logit_bias={other: 1000.0}, max_tokens=1, temperature=0).tokens == [other]


def test_a_second_turn_costs_only_what_is_new(engine: qrun.Engine) -> None:
    chat = engine.chat(max_tokens=8, temperature=0)
    first = chat.send(PROMPT)
    second = chat.send("And then?")
    assert second.cached_tokens >= first.prompt_tokens - 1
    assert [message["role"] for message in chat.messages] == ["user", "assistant"] * 2


def test_logprobs(engine: qrun.Engine) -> None:
    done = engine.generate(PROMPT, max_tokens=4, temperature=0, logprobs=3)
    assert done.logprobs is not None
    for token, row in zip(done.tokens, done.logprobs):
        assert row.token == token == row.top[0][0]
        assert len(row.top) == 3 and row.top[0][1] >= row.top[1][1] >= row.top[2][1]
        assert row.piece == engine.pieces([token])[0]
    assert engine.generate(PROMPT, max_tokens=1).logprobs is None


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    "form, holds",
    [
        ({"grammar": 'root ::= "yes" | "no"'}, lambda text: text in ("yes", "no")),
        ({"json_schema": {"enum": ["a", "b"]}}, lambda text: text in ('"a"', '"b"')),
        ({"json_schema": '{"enum": ["a", "b"]}'}, lambda text: text in ('"a"', '"b"')),
        ({"response_format": {"type": "json_object"}}, lambda text: text.startswith("{")),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"enum": [1]}}}}, lambda text: text == "1"),
        ({"response_format": {"type": "text"}}, lambda text: True),
    ],
)
def test_an_answer_is_held_to_a_form(engine: qrun.Engine, form, holds, raw: bool) -> None:
    answer = engine.generate(PROMPT, raw=raw, max_tokens=12, seed=3, **form)
    assert holds(answer.text), answer.text


@pytest.mark.parametrize(
    "form, error, words",
    [
        ({"grammar": "root ::= ("}, qrun.UsageError, "line 1"),
        ({"grammar": 'root ::= "x"', "json_schema": True}, TypeError, "one of them"),
        ({"grammar": 5}, TypeError, "GBNF"),
        ({"json_schema": {"type": "nothing"}}, qrun.UsageError, "nothing"),
        ({"response_format": {"type": "xml"}}, TypeError, "xml"),
        ({"response_format": {"type": "json_schema"}}, TypeError, "json_schema"),
    ],
)
def test_a_form_that_is_wrong_is_refused(engine: qrun.Engine, form, error, words) -> None:
    with pytest.raises(error, match=words):
        engine.generate(PROMPT, max_tokens=4, **form)
