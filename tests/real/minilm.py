"""Writes the all-MiniLM-L6-v2 of a sentence-transformers folder as GGUF, in F32 and with llama.cpp's names.

Needs numpy and gguf: python minilm.py FOLDER OUT
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np

OUTSIDE = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.LayerNorm": "token_embd_norm",
}
LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
SPECIAL = {"bos": "[CLS]", "eos": "[SEP]", "unknown": "[UNK]", "seperator": "[SEP]", "padding": "[PAD]", "mask": "[MASK]"}


def tensors(path):
    """Name and array of each tensor of a safetensors file."""
    raw = path.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    for name, entry in json.loads(raw[8:begin]).items():
        if entry.get("dtype") == "F32":
            first, end = entry["data_offsets"]
            yield name, np.frombuffer(raw[begin + first : begin + end], "<f4").reshape(entry["shape"])


def piece(word):
    """A word of the vocabulary as a GGUF file has it: what begins a word is marked, not what goes on."""
    if word in SPECIAL.values():
        return word
    return word[2:] if word.startswith("##") else "\u2581" + word


def main(folder, out):
    config = json.loads((folder / "config.json").read_text())
    words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[: config["vocab_size"]]
    writer = gguf.GGUFWriter(out, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece(word) for word in words])
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if word in SPECIAL.values() else normal for word in words])
    writer.add_token_type_count(config["type_vocab_size"])
    for role, word in SPECIAL.items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", words.index(word))
    names = dict(OUTSIDE)
    for il in range(config["num_hidden_layers"]):
        names |= {f"encoder.layer.{il}.{theirs}": f"blk.{il}.{ours}" for theirs, ours in LAYER.items()}
    for name, values in tensors(folder / "model.safetensors"):
        part, _, suffix = name.rpartition(".")
        if part in names:
            writer.add_tensor(f"{names[part]}.{suffix}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
