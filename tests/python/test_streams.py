"""Streams: for, async for, with; what happens to those that nobody reads on."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest
import qrun
from conftest import DEVICE, PROMPT, Open


def idle(engine: qrun.Engine) -> bool:
    """Whether the engine's only place is free soon: an answer of one token gets it."""
    began = time.monotonic()
    engine.generate(PROMPT, max_tokens=1)
    # An emulated GPU takes its time, but far less than the rest of an endless answer does.
    return time.monotonic() - began < (5 if DEVICE == "cpu" else 60)


def test_pieces_make_the_text(engine: qrun.Engine) -> None:
    stream = engine.stream(PROMPT, max_tokens=24, temperature=0)
    pieces = list(stream)
    assert len(pieces) > 4
    assert "".join(pieces) == stream.completion.text
    assert stream.tokens == stream.completion.tokens
    assert list(stream) == []


def test_async_for(open_engine: Open) -> None:
    engine = open_engine(n_seq=3)
    expected = engine.generate(PROMPT, max_tokens=24, temperature=0).text

    async def one() -> str:
        text = ""
        async with engine.stream(PROMPT, max_tokens=24, temperature=0) as stream:
            async for piece in stream:
                text += piece
        return text

    async def all_() -> list[str]:
        return await asyncio.gather(*(one() for _ in range(5)))

    assert asyncio.run(all_()) == [expected] * 5


def test_a_cancelled_task_ends_its_answer(engine: qrun.Engine) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(engine.agenerate(PROMPT, ignore_eos=True))
        await asyncio.sleep(0.05)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return
        raise AssertionError("the task was not cancelled")

    asyncio.run(cancelled())
    assert idle(engine)


def test_with_ends_the_answer(engine: qrun.Engine) -> None:
    with engine.stream(PROMPT, ignore_eos=True) as stream:
        next(stream)
    assert stream.completion.finish_reason == "cancelled"
    assert 0 < len(stream.completion.tokens) < 400
    assert idle(engine)


def test_a_dropped_stream_frees_its_place(engine: qrun.Engine) -> None:
    for _ in range(3):
        stream = engine.stream(PROMPT, ignore_eos=True)
        next(stream)
        del stream
        gc.collect()
        assert idle(engine)


def test_a_stream_keeps_its_engine() -> None:
    expected = qrun.Engine(device="cpu").generate(PROMPT, max_tokens=8, temperature=0).text
    assert "".join(qrun.Engine(device="cpu").stream(PROMPT, max_tokens=8, temperature=0)) == expected


def test_chat_streams(engine: qrun.Engine) -> None:
    chat = engine.chat(max_tokens=8, temperature=0)
    text = "".join(chat.stream(PROMPT))
    assert chat.messages[-1] == {"role": "assistant", "content": text}
    assert chat.regenerate().text == text
    half = chat.stream("Go on.", max_tokens=200, ignore_eos=True)
    read = next(half)
    half.close()
    assert chat.messages[2:] == [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": read}]
    assert chat.last is not None and chat.last.finish_reason == "cancelled" and chat.last.text.startswith(read)
    assert chat.send("And then?").cached_tokens > chat.last.prompt_tokens // 2 and len(chat.messages) == 6
    # Nothing was read of this one, and an error is not an answer.
    chat.stream("What?").close()  # type: ignore[attr-defined]
    with pytest.raises(KeyError, match="mine"):
        list(chat.stream("What?", logits_processor=fails))
    assert len(chat.messages) == 6


def fails(ids: object, scores: object) -> None:
    raise KeyError("mine")
