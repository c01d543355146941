"""Strips the published vocabularies to what tests/tokenizer needs of them.

    python strip.py SHARED       (SHARED/vocab holds NAME.gguf, NAME.inp and NAME.out as llama.cpp publishes them)

Needs gguf. Writes, beside itself, NAME.gguf (a vocabulary without the tokens and merges that the tested texts cannot
meet; the key `stripped.ids` has each token's id in the whole vocabulary).

A merge joins neighbours, so what it makes stands in the text: tokens that are not part of a text are never looked
for, and leaving them out changes no result. Tokens for bytes, control tokens with a role and their order stay.
"""

import json
import sys
from pathlib import Path

import gguf

HERE = Path(__file__).parent
SHARED = Path(sys.argv[1]) / "vocab"
NAMES = ["llama-spm", "gemma-spm", "llama-bpe", "qwen2"]
UNKNOWN, BYTE = 2, 6


def bytes_as_characters():
    """Byte-level vocabularies spell printable bytes as themselves and the others from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}


def strip(name, texts):
    fields = gguf.GGUFReader(SHARED / f"{name}.gguf").fields
    fields = {key.removeprefix("tokenizer.ggml."): field for key, field in fields.items()}
    get = lambda key: fields[key].contents() if key in fields else None
    tokens, types, merges = get("tokens"), get("token_type"), get("merges")
    roles = {key: get(f"{key}_token_id") for key in ("bos", "eos", "eot", "unknown")}
    roles = {key: id for key, id in roles.items() if id is not None and id < len(tokens)}
    if merges:
        spelled = bytes_as_characters()
        met = "\0".join("".join(spelled[b] for b in text.encode()) for text in texts)
        always = set(spelled.values())
    else:
        met = "\0".join("\u2581" + text.replace(" ", "\u2581") for text in texts)
        always = set()
    stays = lambda id, token: token in always or types[id] in (UNKNOWN, BYTE) or id in roles.values() or token in met
    kept = [id for id, token in enumerate(tokens) if stays(id, token)]

    w = gguf.GGUFWriter(HERE / f"{name}.gguf", "llama")
    w.add_array("stripped.ids", kept)
    w.add_tokenizer_model(get("model"))
    w.add_tokenizer_pre(get("pre") or "default")
    w.add_token_list([tokens[id] for id in kept])
    w.add_token_types([types[id] for id in kept])
    if merges:
        w.add_token_merges([m for m in merges if m.replace(" ", "") in met])
    else:
        scores = get("scores")
        w.add_token_scores([scores[id] for id in kept])
    for key, add in (("add_bos_token", w.add_add_bos_token), ("add_eos_token", w.add_add_eos_token),
                     ("add_space_prefix", w.add_add_space_prefix)):
        if get(key) is not None:
            add(get(key))
    for key, id in roles.items():
        w.add_uint32(f"tokenizer.ggml.{key}_token_id", kept.index(id))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    print(f"{name}: {len(kept)} of {len(tokens)} tokens")


def main():
    published = (SHARED / f"{NAMES[0]}.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")[:-1]
    rows = (HERE / "expected.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts = published + [json.loads(row.split("\t")[0]) for row in rows]
    for name in NAMES:
        strip(name, texts)


main()
