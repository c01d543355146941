"""The tokenizer of a GGUF file as a folder that transformers loads: vocabulary.py MODEL FOLDER.

guidellm cuts its prompts with it to a number of tokens, so no name of a hub is needed.
"""

import json
import pathlib
import struct
import sys

CONTROL, USER, BYTE = 3, 4, 6  # Kinds of tokens.
NUMBERS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9


def number(file, letter):
    return struct.unpack("<" + letter, file.read(struct.calcsize("<" + letter)))[0]


def value(file, kind):
    if kind == TEXT:
        return file.read(number(file, "Q")).decode(errors="replace")
    if kind == ARRAY:
        kind, count = number(file, "I"), number(file, "Q")
        return [value(file, kind) for _ in range(count)]
    return number(file, NUMBERS[kind])


def metadata(path):
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            sys.exit(f"{path}: no GGUF file")
        _version, _tensors, count = number(file, "I"), number(file, "Q"), number(file, "Q")
        return {value(file, TEXT): value(file, number(file, "I")) for _ in range(count)}


def main(model, folder):
    fields = metadata(model)

    def get(key):
        return fields.get(f"tokenizer.ggml.{key}")

    tokens, kinds, merges = get("tokens"), get("token_type"), get("merges")
    if merges is not None:
        pieces = {
            "model": {
                "type": "BPE",
                "vocab": {token: i for i, token in enumerate(tokens)},
                "merges": [merge.split(" ", 1) for merge in merges],
            },
            # The cut into words of GPT-2: another one moves a few tokens, and a prompt is cut by their count.
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
        }
    else:
        scores = get("scores") or [0.0] * len(tokens)
        pieces = {
            "model": {
                "type": "Unigram",
                "unk_id": get("unknown_token_id") or 0,
                "vocab": [[token, score] for token, score in zip(tokens, scores)],
                "byte_fallback": BYTE in kinds,
            },
            "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
            "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
        }
    special = [(i, t) for i, t in enumerate(tokens) if kinds[i] in (CONTROL, USER)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    pieces["added_tokens"] = [{"id": i, "content": token, **flags} for i, token in special]
    pieces |= {"version": "1.0", "normalizer": None, "post_processor": None}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(pieces))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


main(*sys.argv[1:])
