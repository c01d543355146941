"""Makes tests/data/golden/embeddings: vectors of transformers (f32) for the models of tests/embeddings.rs.

Needs torch, transformers 5, gguf and a Rust toolchain; run it from anywhere:
    python tests/golden/embeddings.py [CASE …]
NAME.bin holds [7][width] numbers as f32, little endian: vectors of four tokens, then the mean over all tokens, that of
the first and that of the last; models.txt a hash of each model.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers

from make import ROOT, Model
from rows import ROWS, Row

DATA = ROOT / "tests/data/golden/embeddings"

ROWS["gemma-embedding"] = ROWS["gemma3"]
ROWS["bert"] = ROWS["nomic-bert"] = Row("Bert")
ROWS["modern-bert"] = Row("ModernBert")

OUTSIDE = {
    "token_embd.weight": "embeddings.word_embeddings.weight",
    "token_types.weight": "embeddings.token_type_embeddings.weight",
    "position_embd.weight": "embeddings.position_embeddings.weight",
    "token_embd_norm.weight": "embeddings.LayerNorm.weight",
    "token_embd_norm.bias": "embeddings.LayerNorm.bias",
}
BERT = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
NOMIC = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_output_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "layer_output_norm": "post_mlp_layernorm",
}


def sizes(model):
    """Options that all of these have."""
    k = model.keys
    return dict(
        vocab_size=len(model.tensors["token_embd.weight"]),
        hidden_size=k["embedding_length"],
        num_hidden_layers=k["block_count"],
        num_attention_heads=k["attention.head_count"],
        intermediate_size=k["feed_forward_length"],
        max_position_embeddings=k["context_length"],
        pad_token_id=0,
        attn_implementation="eager",
    )


def encoder(model):
    """BERT, and Nomic's."""
    k = model.keys
    options = sizes(model) | dict(
        type_vocab_size=len(model.tensors["token_types.weight"]),
        layer_norm_eps=k["attention.layer_norm_epsilon"],
    )
    if model.arch == "bert":
        config, kind, parts, prefix = transformers.BertConfig(**options), transformers.BertModel, BERT, "encoder.layer"
    else:
        rope = {"rope_type": "default", "rope_theta": k["rope.freq_base"]}
        config = transformers.NomicBertConfig(rope_parameters=rope, head_dim=k["attention.key_length"], **options)
        kind, parts, prefix = transformers.NomicBertModel, NOMIC, "layers"
    net = kind(config, add_pooling_layer=False)
    state = {OUTSIDE[name]: t for name, t in model.tensors.items() if name in OUTSIDE}
    for il in range(k["block_count"]):
        layer = {n.removeprefix(f"blk.{il}."): t for n, t in model.tensors.items() if n.startswith(f"blk.{il}.")}
        if (fused := layer.pop("attn_qkv.weight", None)) is not None:
            layer |= dict(zip(("attn_q.weight", "attn_k.weight", "attn_v.weight"), fused.chunk(3)))
        for name, t in layer.items():
            part, _, suffix = name.rpartition(".")
            state[f"{prefix}.{il}.{parts[part]}.{suffix}"] = t
    return net, state


MODERN = {
    "token_embd.weight": "embeddings.tok_embeddings.weight",
    "token_embd_norm.weight": "embeddings.norm.weight",
    "output_norm.weight": "final_norm.weight",
    "attn_norm": "attn_norm",
    "attn_qkv": "attn.Wqkv",
    "attn_output": "attn.Wo",
    "ffn_norm": "mlp_norm",
    "ffn_up": "mlp.Wi",
    "ffn_down": "mlp.Wo",
}


def modern(model):
    """ModernBERT, whose tensors are fused there as they are in files."""
    k = model.keys
    bases = {"full_attention": k["rope.freq_base"], "sliding_attention": 10_000.0}
    config = transformers.ModernBertConfig(
        **sizes(model),
        local_attention=k["attention.sliding_window"],
        rope_parameters={kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
        norm_eps=k["attention.layer_norm_epsilon"],
    )
    state = {}
    for name, t in model.tensors.items():
        if name in MODERN:
            state[MODERN[name]] = t
        else:
            _, il, part, suffix = name.split(".")
            state[f"layers.{il}.{MODERN[part]}.{suffix}"] = t
    return transformers.ModernBertModel(config), state


def decoder(model):
    """A model with a mask, or EmbeddingGemma: the part of it before the head."""
    config = model.config()
    if model.arch == "gemma-embedding":
        window = model.keys["attention.sliding_window"]
        config.use_bidirectional_attention, config.sliding_window = True, window // 2 + 1
        net = transformers.Gemma3TextModel(config)
        for layer in net.layers:
            layer.self_attn.is_causal = False
            assert layer.self_attn.sliding_window in (None, config.sliding_window)
    else:
        net = getattr(transformers, model.row.name + "Model")(config)
    state = {n.removeprefix("model."): t for n, t in model.state().items() if not n.startswith("lm_head")}
    return net, state


@torch.no_grad()
def hidden(model, tokens):
    of_arch = {"bert": encoder, "nomic-bert": encoder, "modern-bert": modern}
    net, state = of_arch.get(model.arch, decoder)(model)
    net = net.float().eval()
    missing, unexpected = net.load_state_dict(state, strict=False)
    left_out = [m for m in missing if "rotary" not in m and "position_ids" not in m and "token_type_ids" not in m]
    assert not unexpected and not left_out, (missing, unexpected)
    return net(torch.tensor([tokens])).last_hidden_state[0]


def vectors(model, tokens, at):
    rows = hidden(model, tokens)
    rows = torch.cat([rows[at], rows.mean(0, keepdim=True), rows[:1], rows[-1:]])
    for name in ("dense_2.weight", "dense_3.weight"):
        if name in model.tensors:
            rows = rows @ model.tensors[name].T
    return rows.numpy()


def main():
    transformers.logging.set_verbosity_error()
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        env = os.environ | {"QRUN_GOLDEN_DIR": directory}
        test = "embeddings::writes_the_models_for_embeddings_py"
        subprocess.run(["cargo", "test", "--quiet", "--test", "tests", test, "--", "--ignored"], cwd=ROOT, env=env, check=True)
        hashes = {}
        for path in Path(directory).glob("*.txt"):
            hashes[path.stem], tokens, at = path.read_text().splitlines()
            if sys.argv[1:] and path.stem not in sys.argv[1:]:
                continue
            tokens, at = ([int(n) for n in line.split()] for line in (tokens, at))
            rows = vectors(Model(path.with_suffix(".gguf")), tokens, at)
            print(f"{path.stem:20} elements spread by {rows.std():.2f}")
            (DATA / f"{path.stem}.bin").write_bytes(rows.astype("<f4").tobytes())
    lines = (ROOT / "tests/embeddings.rs").read_text().splitlines()
    order = [line.split('"')[1] for line in lines if "Case { name:" in line]
    (DATA / "models.txt").write_text("".join(f"{name} {hashes[name]}\n" for name in order))


if __name__ == "__main__":
    main()
