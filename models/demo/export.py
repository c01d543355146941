"""Writes a checkpoint as GGUF files: demo-f32.gguf and demo-bf16.gguf, with the keys that Gemma 3 files have."""

import argparse
from pathlib import Path

import gguf
import numpy
import torch

import vocabulary
from model import config_of
from vocabulary import Vocabulary

# Written for this model, after the conversation format of Gemma 3: a system message joins the first user turn.
TEMPLATE = """{{ bos_token }}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- if not loop.first -%}{{ raise_exception('a system message must come first') }}{%- endif -%}
        {%- set ns.system = message['content'] | trim + '\\n\\n' -%}
    {%- elif message['role'] == 'user' -%}
        {{- '<start_of_turn>user\\n' + ns.system + message['content'] | trim + '<end_of_turn>\\n' -}}
        {%- set ns.system = '' -%}
    {%- elif message['role'] in ['assistant', 'model'] -%}
        {{- '<start_of_turn>model\\n' + message['content'] | trim + '<end_of_turn>\\n' -}}
    {%- else -%}
        {{- raise_exception('unknown role: ' + message['role']) -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<start_of_turn>model\\n' -}}
{%- endif -%}"""


# Sampled answers are right nearly as often as greedy ones, and stories still differ from run to run.
TEMPERATURE = 0.2


def add_keys(writer, c, file_type):
    writer.add_type("model")
    writer.add_float32("general.sampling.temp", TEMPERATURE)
    writer.add_name("qrun demo")
    writer.add_size_label("5M")
    writer.add_license("MIT OR Apache-2.0")
    writer.add_file_type(file_type)
    writer.add_quantization_version(2)
    writer.add_context_length(c.context)
    writer.add_embedding_length(c.width)
    writer.add_block_count(c.layers)
    writer.add_feed_forward_length(c.hidden)
    writer.add_head_count(c.heads)
    writer.add_head_count_kv(c.kv_heads)
    writer.add_key_length(c.head_dim)
    writer.add_value_length(c.head_dim)
    writer.add_layer_norm_rms_eps(c.eps)
    writer.add_rope_freq_base(c.rope_base)
    writer.add_float32("gemma3.rope.freq_base_swa", c.rope_base_local)
    writer.add_sliding_window(c.window)


def add_tokenizer(writer, pieces):
    tokens, scores, kinds = [], [], []
    for i in range(pieces.get_piece_size()):
        tokens.append(pieces.id_to_piece(i).encode())
        scores.append(pieces.get_score(i))
        if pieces.is_unknown(i):
            kinds.append(gguf.TokenType.UNKNOWN)
        elif pieces.is_control(i):
            kinds.append(gguf.TokenType.CONTROL)
        elif pieces.is_byte(i):
            kinds.append(gguf.TokenType.BYTE)
        else:
            # The line feed, which SentencePiece calls user-defined, is a plain token here: no piece contains it.
            kinds.append(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(vocabulary.BOS)
    writer.add_eos_token_id(vocabulary.EOS)
    writer.add_eot_token_id(vocabulary.END)
    writer.add_unk_token_id(vocabulary.UNK)
    writer.add_pad_token_id(vocabulary.PAD)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)


def tensors(state):
    """(GGUF name, array) pairs; the names of the modules are those of GGUF already."""
    for name, value in state.items():
        name = name if name.endswith(".weight") else name + ".weight"
        # A runtime multiplies by the weight itself, so the 1 that training left out goes back in.
        value = value + 1 if value.ndim == 1 else value
        yield name, value.to(torch.float32).numpy()


def write(path, state, pieces, kind):
    file_type = {"bf16": gguf.LlamaFileType.MOSTLY_BF16, "f32": gguf.LlamaFileType.ALL_F32}[kind]
    fresh = path.with_suffix(".new")
    writer = gguf.GGUFWriter(fresh, "gemma3")
    add_keys(writer, config_of(state), file_type)
    add_tokenizer(writer, pieces)
    for name, value in tensors(state):
        if kind == "bf16" and value.ndim == 2:
            stored = gguf.quants.quantize(value, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(name, stored, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(name, numpy.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    fresh.replace(path)
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder with checkpoint.pt and vocabulary.model")
    args = parser.parse_args()
    state = torch.load(args.run / "checkpoint.pt")["model"]
    pieces = Vocabulary(args.run / "vocabulary.model").pieces
    for kind in ("bf16", "f32"):
        write(args.run / f"demo-{kind}.gguf", state, pieces, kind)


if __name__ == "__main__":
    main()
