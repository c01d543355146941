"""The dicts of OpenAI's completions and chats, as llama-cpp-python returns them."""

from __future__ import annotations

import time
import uuid
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence

Json = Dict[str, Any]


class Frame:
    """What all dicts of one answer share: id, time, name of the model."""

    def __init__(self, model: str) -> None:
        self.id = f"cmpl-{uuid.uuid4()}"
        self.created = int(time.time())
        self.model = model

    def completion(self, text: str, logprobs: Optional[Json], finish: Optional[str]) -> Json:
        """A `text_completion`, whole or a chunk of one."""
        choice = {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish}
        head = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}
        return {**head, "choices": [choice]}


def usage(prompt: int, completion: int) -> Json:
    """Tokens of the prompt, of the answer, and of both."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def logprobs(entries: Sequence[Json], offset: int) -> Json:
    """Log-probabilities in the form of completions; the first token's text begins at `offset` characters."""
    offsets: List[int] = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry["token"])
    return {
        "tokens": [entry["token"] for entry in entries],
        "text_offset": offsets,
        "token_logprobs": [entry["logprob"] for entry in entries],
        "top_logprobs": [_top(entry) for entry in entries],
    }


def _top(entry: Json) -> Optional[Dict[str, float]]:
    """The likeliest tokens and the chosen one, by text; None for the first token of a text, which nothing predicts."""
    if entry["logprob"] is None:
        return None
    return {**{top["token"]: top["logprob"] for top in entry["top_logprobs"]}, entry["token"]: entry["logprob"]}


def chat(completion: Json, message: Optional[Json]) -> Json:
    """A whole completion as a chat's answer; `message` holds what is for the reader, and calls where there are any."""
    choice = completion["choices"][0]
    said: Json = {"role": "assistant", "content": choice["text"]}
    if message is not None:
        said["content"] = message["content"]
        if message.get("tool_calls"):
            said.update(content=message["content"] or None, tool_calls=message["tool_calls"])
    return {
        "id": "chat" + completion["id"],
        "object": "chat.completion",
        "created": completion["created"],
        "model": completion["model"],
        "choices": [
            {
                "index": 0,
                "message": said,
                "logprobs": _chat_logprobs(choice["logprobs"]),
                "finish_reason": choice["finish_reason"],
            }
        ],
        "usage": completion["usage"],
    }


def chat_chunks(chunks: Iterable[Json], calls: Sequence[Json] = ()) -> Iterator[Json]:
    """Chunks of a completion as those of a chat: the role comes first, in a chunk of its own.

    `calls`, which are there when the last chunk is, come before it, one in each chunk.
    """
    first = True
    for chunk in chunks:
        choice = chunk["choices"][0]
        if first:
            yield _chat_chunk(chunk, {"role": "assistant"}, None, None)
            first = False
        finish = choice["finish_reason"]
        if finish is not None:
            for index, call in enumerate(calls):
                yield _chat_chunk(chunk, {"tool_calls": [{"index": index, **call}]}, None, None)
        yield _chat_chunk(chunk, {"content": choice["text"]} if finish is None else {}, choice["logprobs"], finish)


def _chat_chunk(chunk: Json, delta: Json, found: Optional[Json], finish: Optional[str]) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": _chat_logprobs(found), "finish_reason": finish}
    head = {"id": "chat" + chunk["id"], "model": chunk["model"], "created": chunk["created"]}
    return {**head, "object": "chat.completion.chunk", "choices": [choice]}


def _chat_logprobs(found: Optional[Json]) -> Optional[Json]:
    """Log-probabilities of a completion in the form of chats."""
    if found is None:
        return None

    def entry(token: str, logprob: Optional[float]) -> Json:
        return {"token": token, "bytes": None, "logprob": logprob}

    content = [
        {**entry(token, logprob), "top_logprobs": [entry(*pair) for pair in (top or {}).items()]}
        for token, logprob, top in zip(found["tokens"], found["token_logprobs"], found["top_logprobs"])
    ]
    return {"content": content, "refusal": None}
