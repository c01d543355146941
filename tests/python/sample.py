"""What a program of a user looks like to mypy --strict."""

from __future__ import annotations

import asyncio

import qrun


def answers(path: str | None) -> list[str]:
    with qrun.Engine(path, n_ctx=512, device="cpu") as engine:
        done: qrun.Completion = engine.generate("Hello", max_tokens=4, seed=1)
        texts = [done.text, done.finish_reason, str(done.tokens_per_sec)]
        with engine.stream([{"role": "user", "content": "Hello"}], max_tokens=4) as stream:
            texts += [piece.upper() for piece in stream]
        texts += [each.text for each in engine.batch(["One", "Two"], max_tokens=[1, 2])]
        chat = engine.chat("Be brief.", max_tokens=4)
        texts.append(chat.send("Hello").text)
        texts.append(engine.detokenize(engine.tokenize("Hello")))
        for row in done.logprobs or []:
            texts.append(f"{row.token} {row.logprob:.2f}")
        return texts


def vectors(path: str | None) -> list[int]:
    with qrun.Embedder(path, pooling="mean", n_ctx=512) as embedder:
        found = embedder.embed(["What is a page table?", "Hello"], normalize=True, truncate=True)
        return [len(vector) for vector in found] + [embedder.width, embedder.n_ctx, len(embedder.tokenize("Hello"))]


async def streamed(engine: qrun.Engine) -> str:
    text = ""
    async for piece in engine.stream("Hello", max_tokens=4):
        text += piece
    return text + (await engine.agenerate("Hello", max_tokens=4)).text


if __name__ == "__main__":
    print(answers(None), vectors(None), asyncio.run(streamed(qrun.Engine())))
