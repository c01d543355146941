"""Makes tests/data/golden: logits of transformers (f32) and of llama.cpp for the models of tests/golden.rs.

Needs torch, transformers 5, gguf, llama-cpp-python and a Rust toolchain; run it from anywhere:
    python tests/golden/make.py [CASE …]
NAME.bin holds [4][n_vocab] logits of transformers as f32 and, for most, [24][n_vocab] of llama.cpp as f16, little
endian; models.txt a hash of each model, so that the tests know that they compare the same ones.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import transformers
from gguf import GGUFReader
from gguf.quants import dequantize

from rows import NAMES, OUTPUT_NORMS, ROWS

try:
    import llama_cpp
except ImportError:  # not every case has logits of llama.cpp
    llama_cpp = None

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/golden"


class Model:
    """A GGUF file as numbers: keys without the architecture's prefix, tensors in f32."""

    def __init__(self, path):
        reader = GGUFReader(path)
        values = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("tokenizer.ggml.tokens")}
        self.arch = values["general.architecture"]
        self.keys = {k.removeprefix(self.arch + "."): v for k, v in values.items()}
        # Attention heads of keys by layer: none, or the same number in all that have attention.
        self.heads_kv = self.keys["attention.head_count_kv"]
        # Gemma 4 says F by layer: twice as wide in layers that share K and V.
        self.widths = self.keys["feed_forward_length"]
        for name in ("attention.head_count", "attention.head_count_kv", "feed_forward_length"):
            if isinstance(self.keys[name], list):
                self.keys[name] = max(self.keys[name])
        self.tensors = {
            t.name: torch.from_numpy(dequantize(t.data, t.tensor_type).astype(np.float32).reshape(t.shape[::-1].tolist()))
            for t in reader.tensors
        }
        self.slides = bool(self.keys.get("attention.sliding_window"))
        self.latent = "attention.kv_lora_rank" in self.keys
        kinds = {
            " with experts": "expert_count" in self.keys,
            " with a window": self.slides,
            " by softmax": "expert_gating_func" not in self.keys,
            "": True,
        }
        self.row = next(ROWS[self.arch + kind] for kind, has in kinds.items() if has and self.arch + kind in ROWS)

    def layer_types(self):
        """Which layers slide, by the architectures' own period unless the file says otherwise, or have no attention."""
        period = self.keys.get("attention.sliding_window_pattern", self.row.period) if self.slides else 0
        if isinstance(period, list):
            return ["sliding_attention" if slides else "full_attention" for slides in period]
        if isinstance(self.heads_kv, list) and not self.slides:
            return [self.layer_type(il, n) for il, n in enumerate(self.heads_kv)]
        layers = range(self.keys["block_count"])
        return ["sliding_attention" if period and (i + 1) % period else "full_attention" for i in layers]

    def layer_type(self, il, n_head_kv):
        """What a layer of a model without windows is."""
        if n_head_kv > 0:
            return "full_attention"
        if "ssm.state_size" not in self.keys:
            return "conv"
        if self.row.name != "NemotronH" or self.widths[il] == 0:
            return "linear_attention"
        return "moe" if f"blk.{il}.ffn_gate_inp.weight" in self.tensors else "mlp"

    def rope(self):
        k = self.keys
        rope = {"rope_type": k.get("rope.scaling.type", "default"), "rope_theta": k["rope.freq_base"]} | self.row.rope
        head_dim = self.head_dim()
        if k["rope.dimension_count"] < head_dim:
            rope["partial_rotary_factor"] = k["rope.dimension_count"] / head_dim
        names = {
            "factor": "rope.scaling.factor",
            "original_max_position_embeddings": "rope.scaling.original_context_length",
            "attention_factor": "rope.scaling.attn_factor",
            "mscale_all_dim": "rope.scaling.yarn_log_multiplier",
            "llama_4_scaling_beta": "attention.temperature_scale",
        }
        rope |= {name: k[key] for name, key in names.items() if key in k}
        if "mscale_all_dim" in rope:
            rope["mscale"] = 1.0
            if self.latent:
                # The file has a tenth; published models have the same number twice.
                rope["mscale"] = rope["mscale_all_dim"] = 10 * rope["mscale_all_dim"]
        if rope["rope_type"] == "longrope":
            for length in ("long", "short"):
                rope[f"{length}_factor"] = self.tensors[f"rope_factors_{length}.weight"].tolist()
        if sections := k.get("rope.dimension_sections"):
            rope |= {"mrope_section": list(sections)[:3], "mrope_interleaved": True}
        if self.arch == "gemma4" and (factors := self.tensors.get("rope_freqs.weight")) is not None:
            # The last pairs, with 1e30, do not turn.
            turning = int((factors < 1e30).sum())
            assert (factors[:turning] < 1e30).all(), factors
            rope["partial_rotary_factor"] = turning / len(factors)
        if self.arch in ("gemma3", "gemma4") or self.arch == "olmo2" and self.slides:
            local = {"rope_type": "default", "rope_theta": k["rope.freq_base"]}
            if self.arch != "olmo2":
                local["rope_theta"] = k.get("rope.freq_base_swa", 10000.0)
            return {"full_attention": rope, "sliding_attention": local}
        return rope

    def head_dim(self):
        """Elements of a head of which a part turns; DeepSeek's is the part."""
        k = self.keys
        if not self.latent:
            return k["attention.key_length"]
        return k["attention.key_length_mla"] if self.arch == "mistral4" else k["rope.dimension_count"]

    def config(self):
        k, row = self.keys, self.row
        eps = k.get("attention.layer_norm_rms_epsilon", k.get("attention.layer_norm_epsilon"))
        biases = "blk.0.attn_q.bias" in self.tensors or "blk.0.attn_qkv.bias" in self.tensors
        options = dict(
            vocab_size=self.tensors["token_embd.weight"].shape[0],
            hidden_size=k["embedding_length"],
            num_hidden_layers=k["block_count"],
            intermediate_size=k["feed_forward_length"],
            num_attention_heads=k["attention.head_count"],
            num_key_value_heads=k["attention.head_count_kv"],
            head_dim=self.head_dim(),
            rms_norm_eps=eps,
            layer_norm_eps=eps,
            norm_eps=eps,
            attention_bias=biases,
            qkv_bias=biases,
            max_position_embeddings=k["context_length"],
            tie_word_embeddings="output.weight" not in self.tensors,
            rope_parameters=self.rope(),
            pad_token_id=None,
            attn_implementation="eager",
        )
        if isinstance(self.heads_kv, list):
            options["layer_types"] = self.layer_types()
        if row.period:
            options |= dict(sliding_window=k.get("attention.sliding_window"), layer_types=self.layer_types())
        options |= row.options | {name: k[key] for name, key in row.keys.items() if key in k}
        if self.arch == "gemma2":
            options |= dict(
                attn_logit_softcapping=k.get("attn_logit_softcapping", 50.0),
                final_logit_softcapping=k.get("final_logit_softcapping", 30.0),
            )
        if self.arch == "gemma4":
            options |= self.gemma4()
        if self.latent:
            options |= dict(
                num_key_value_heads=k["attention.head_count"],
                q_lora_rank=k.get("attention.q_lora_rank"),
                qk_nope_head_dim=k["attention.key_length_mla"] - k["rope.dimension_count"],
                n_shared_experts=k.get("expert_shared_feed_forward_length", 0) // k["expert_feed_forward_length"],
                topk_method="group_limited_greedy" if "expert_group_count" in k else "greedy",
            )
        if "ssm.inner_size" in k:
            names = ("linear_value_head_dim", "mamba_d_head", "mamba_head_dim")
            options |= dict.fromkeys(names, k["ssm.inner_size"] // k["ssm.time_step_rank"])
        if self.row.name == "GraniteMoeHybrid":
            options["mamba_expand"], rest = divmod(k["ssm.inner_size"], k["embedding_length"])
            assert rest == 0 and k["rope.scaling.finetuned"] is False
        if self.row.name == "NemotronH":
            latent = [t for n, t in self.tensors.items() if "ffn_latent_down" in n]
            options |= dict(layer_norm_epsilon=eps, moe_latent_size=len(latent[0]) if latent else None)
        if self.arch == "glm4moe":
            options["use_qk_norm"] = "blk.0.attn_q_norm.weight" in self.tensors
            options["n_shared_experts"] = k["expert_shared_feed_forward_length"] // k["expert_feed_forward_length"]
        if self.arch == "phi3" and "rope.scaling.original_context_length" in k:
            options["original_max_position_embeddings"] = k["rope.scaling.original_context_length"]
        if self.arch == "muse-glimmer":
            # The weights of its norms of q and k are one number each.
            norms = [self.tensors[f"blk.0.attn_{part}_norm.weight"] for part in "qk"]
            assert all((norm == norm[0]).all() for norm in norms)
            options["qk_scale_factor"] = float(norms[0][0] * norms[1][0])
            base = k["rope.freq_base"]
            options["layer_rope_theta"] = [base if kind.startswith("sliding") else 0 for kind in self.layer_types()]
        config = getattr(transformers, row.name + row.config)(**options)
        config.head_dim = options["head_dim"]
        return config

    def gemma4(self):
        """Options of Gemma 4, whose layers differ in head size and number of heads, and may have no V."""
        k, types = self.keys, self.layer_types()
        shared = k.get("attention.shared_kv_layers", 0)
        assert types[-1] == "full_attention", "transformers lets the last layer see everything"
        heads_kv = self.heads_kv if isinstance(self.heads_kv, list) else [self.heads_kv] * len(types)
        head_dims = {kind: k["attention.key_length"] for kind in types}
        if "attention.key_length_swa" in k:
            head_dims["sliding_attention"] = k["attention.key_length_swa"]
        widths = self.widths if isinstance(self.widths, list) else [self.widths] * len(types)
        narrow, wide = widths[0], widths[-1]
        assert wide in (narrow, 2 * narrow) and widths == [narrow] * (len(types) - shared) + [wide] * shared, widths
        # One without V takes its K.
        v_is_k = {il for il in range(len(types) - shared) if f"blk.{il}.attn_v.weight" not in self.tensors}
        own_global = {il for il in range(len(types) - shared) if types[il] == "full_attention"}
        assert v_is_k in (set(), own_global), v_is_k
        per_layer = self.tensors.get("per_layer_token_embd.weight")
        return dict(
            head_dim=head_dims.get("sliding_attention", k["attention.key_length"]),
            per_layer_config={
                il: {"head_dim": head_dims[kind], "num_key_value_heads": n}
                for il, (kind, n) in enumerate(zip(types, heads_kv))
            },
            intermediate_size=narrow,
            use_double_wide_mlp=wide > narrow,
            num_kv_shared_layers=shared,
            attention_k_eq_v=bool(v_is_k),
            hidden_size_per_layer_input=k.get("embedding_length_per_layer_input", 0),
            vocab_size_per_layer_input=0 if per_layer is None else len(per_layer),
            enable_moe_block=k.get("expert_count", 0) > 0,
            final_logit_softcapping=k.get("final_logit_softcapping", 30.0),
        )

    def layer(self, il):
        """Tensors of a layer, fused as transformers has them."""
        k = self.keys
        prefix = f"blk.{il}."
        layer = {n.removeprefix(prefix): t for n, t in self.tensors.items() if n.startswith(prefix)}
        q = k["attention.head_count"] * k["attention.key_length"]
        kv = k["attention.head_count_kv"] * k["attention.key_length"]
        if not self.row.fused:
            for suffix in ("weight", "bias"):
                if (fused := layer.pop(f"attn_qkv.{suffix}", None)) is not None:
                    for part, rows in zip(("attn_q", "attn_k", "attn_v"), fused.split([q, kv, kv])):
                        layer[f"{part}.{suffix}"] = rows
            if "ffn_up.weight" in layer and "ffn_gate.weight" not in layer:
                layer["ffn_gate.weight"], layer["ffn_up.weight"] = layer["ffn_up.weight"].chunk(2)
        for suffix in ("weight", "bias"):
            if (gate := layer.pop(f"ffn_gate_exps.{suffix}", None)) is not None:
                both = (gate, layer.pop(f"ffn_up_exps.{suffix}"))
                # gpt-oss has them row by row in turns, and its experts transposed.
                both = torch.stack(both, 2).flatten(1, 2) if self.arch == "gpt-oss" else torch.cat(both, 1)
                layer[f"ffn_gate_up_exps.{suffix}"] = both
        if self.arch == "gpt-oss":
            layer |= {n: t.transpose(1, 2) for n, t in layer.items() if n.endswith("_exps.weight")}
        if self.arch == "granitehybrid" and "ffn_up.weight" in layer:
            # Without experts the shared one is all there is.
            layer |= {f"ffn_{part}_shexp.weight": layer.pop(f"ffn_{part}.weight") for part in ("gate", "up", "down")}
        if self.arch in ("granitemoe", "granitehybrid") and "ffn_up_shexp.weight" in layer:
            both = [layer.pop(f"ffn_{part}_shexp.weight") for part in ("gate", "up")]
            layer["ffn_gate_up_shexp.weight"] = torch.cat(both)
        if (gate := layer.get("ffn_gate_inp_shexp.weight")) is not None:
            layer["ffn_gate_inp_shexp.weight"] = gate[None]
        if "ssm_d" in layer:
            layer["ssm_conv1d.weight"] = layer["ssm_conv1d.weight"][:, None]
            layer["ssm_a"] = layer["ssm_a"].neg().log()
            layer |= {n: layer[n].flatten() for n in ("ssm_a", "ssm_d", "ssm_norm.weight")}
        elif "ssm_conv1d.weight" in layer:
            self.delta_net(layer)
        if (taps := layer.get("shortconv.conv.weight")) is not None:
            layer["shortconv.conv.weight"] = taps[:, None]
        if (k_b := layer.pop("attn_k_b.weight", None)) is not None:
            both = torch.cat([k_b.transpose(1, 2), layer.pop("attn_v_b.weight")], 1)
            layer["attn_kv_b.weight"] = both.flatten(0, 1)
        if self.row.adjacent:
            for part, heads in (("attn_q", k["attention.head_count"]), ("attn_k", k["attention.head_count_kv"])):
                for suffix in ("weight", "bias"):
                    if (t := layer.get(f"{part}.{suffix}")) is not None:
                        layer[f"{part}.{suffix}"] = halves(t, heads)
        if self.arch == "llama" and "attn_q.bias" in layer:
            layer["attn_output.bias"] = torch.zeros(k["embedding_length"])
        if il >= k["block_count"] - k.get("attention.shared_kv_layers", 0):
            # Files of Gemma 4 have these also in layers that use an earlier one's.
            layer = {n: t for n, t in layer.items() if n.split(".")[0] not in ("attn_k", "attn_v", "attn_k_norm")}
        if self.arch == "muse-glimmer":
            del layer["attn_q_norm.weight"], layer["attn_k_norm.weight"]
        return layer

    def delta_net(self, layer):
        """Value heads, which the file has in turns, by their key heads; in Qwen 3 Next all projections of one together."""
        k = self.keys
        n_k, n_v = k["ssm.group_count"], k["ssm.time_step_rank"]
        keys = n_k * k["ssm.state_size"]

        def grouped(rows):
            return rows.reshape(n_v // n_k, n_k, -1, *rows.shape[1:]).transpose(0, 1).reshape(rows.shape)

        layer["ssm_conv1d.weight"] = layer["ssm_conv1d.weight"][:, None]
        layer["ssm_a"] = layer["ssm_a"].neg().log()
        if self.arch == "qwen3next":
            parts = [*layer.pop("attn_qkv.weight").split([keys, keys, k["ssm.inner_size"]]), layer.pop("attn_gate.weight")]
            by_head = [rows.reshape(n_k, -1, rows.shape[-1]) for rows in parts]
            layer["ssm_in.weight"] = torch.cat(by_head, 1).flatten(0, 1)
            return
        for name in ("attn_gate.weight", "ssm_alpha.weight", "ssm_beta.weight", "ssm_dt.bias", "ssm_a"):
            layer[name] = grouped(layer[name])
        for name in ("attn_qkv.weight", "ssm_conv1d.weight"):
            layer[name] = torch.cat([layer[name][: 2 * keys], grouped(layer[name][2 * keys :])])
        layer["ssm_out.weight"] = grouped(layer["ssm_out.weight"].T).T

    def state(self):
        """The state dict of transformers."""
        names = NAMES | self.row.parts
        state = {
            f"model.{self.row.embedding}.weight": self.tensors["token_embd.weight"],
            f"model.{self.row.norm}.weight": next(self.tensors[n] for n in OUTPUT_NORMS if n in self.tensors),
            "lm_head.weight": self.tensors.get("output.weight", self.tensors["token_embd.weight"]),
        }
        for name, theirs in self.row.beside.items():
            if (t := self.tensors.get(f"{name}.weight")) is not None:
                state[f"model.{theirs}.weight"] = t
        for il in range(self.keys["block_count"]):
            for name, t in self.layer(il).items():
                part, _, suffix = name.rpartition(".")
                state[f"model.layers.{il}.{names.get(name) or f'{names[part]}.{suffix}'}"] = t
        # The file's norms are used as they are.
        return {n: t - 1 if any(part in n for part in self.row.plus_one) else t for n, t in state.items()}


class WithHead(torch.nn.Module):
    """The text part of a model that sees images too, and its head."""

    def __init__(self, kind, config):
        super().__init__()
        self.config, self.model = config, kind(config)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, tokens, use_cache, logits_to_keep):
        hidden = self.model(tokens, use_cache=use_cache).last_hidden_state[:, logits_to_keep]
        logits = self.lm_head(hidden) * getattr(self.config, "output_multiplier", 1.0)
        if cap := getattr(self.config, "final_logit_softcapping", None):
            logits = cap * torch.tanh(logits / cap)
        return SimpleNamespace(logits=logits)


def halves(rows, heads):
    """From adjacent rotary pairs (2i, 2i+1) to pairs (i, i + head_dim/2)."""
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


@torch.no_grad()
def by_transformers(model, tokens, at):
    kind = getattr(transformers, model.row.name + model.row.model)
    net = kind(model.config()) if model.row.model == "ForCausalLM" else WithHead(kind, model.config())
    net = net.float().eval()
    missing, unexpected = net.load_state_dict(model.state(), strict=False)
    assert not unexpected and not [m for m in missing if "rotary" not in m], (missing, unexpected)
    if (factors := model.tensors.get("rope_freqs.weight")) is not None:
        rotary = net.model.rotary_emb
        name = "full_attention_inv_freq" if model.arch == "gemma4" else "inv_freq"
        setattr(rotary, name, getattr(rotary, name) / factors)
    return net(torch.tensor([tokens]), use_cache=False, logits_to_keep=torch.tensor(at)).logits[0].numpy()


def by_llama_cpp(path, tokens, at):
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert model, path
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = len(tokens) + 64
    params.n_batch = len(tokens)
    params.n_threads = params.n_threads_batch = 1
    context = llama_cpp.llama_init_from_model(model, params)
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i] = token, i
        batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, i in at
    assert llama_cpp.llama_decode(context, batch) == 0
    n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    rows = [np.array(llama_cpp.llama_get_logits_ith(context, i)[:n_vocab], np.float32) for i in at]
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return np.stack(rows)


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def log(level, text, _):
    if level in (3, 4):
        sys.stderr.write(text.decode(errors="replace"))


def kl(p, q):
    p, q = (torch.log_softmax(torch.from_numpy(x).double(), -1) for x in (p, q))
    return float((p.exp() * (p - q)).sum(-1).mean())


def main():
    transformers.logging.set_verbosity_error()
    if llama_cpp:
        llama_cpp.llama_log_set(log, None)
        llama_cpp.llama_backend_init()
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        env = os.environ | {"QRUN_GOLDEN_DIR": directory}
        test = "golden::writes_the_models_for_make_py"
        subprocess.run(["cargo", "test", "--quiet", "--test", "tests", test, "--", "--ignored"], cwd=ROOT, env=env, check=True)
        hashes = {}
        for path in Path(directory).glob("*.txt"):
            hashes[path.stem], *lines = path.read_text().splitlines()
            tokens, exact_at, fast_at = ([int(n) for n in line.split()] for line in lines)
            if sys.argv[1:] and path.stem not in sys.argv[1:]:
                continue
            gguf = path.with_suffix(".gguf")
            apart = path.with_suffix(".apart.gguf")
            exact = by_transformers(Model(gguf), tokens, exact_at)
            fast = np.empty(0)
            if fast_at:
                fast = by_llama_cpp(apart if apart.exists() else gguf, tokens, fast_at)
                same = [i for i in exact_at if i in fast_at]
                between = kl(exact[[exact_at.index(i) for i in same]], fast[[fast_at.index(i) for i in same]])
                print(f"{path.stem:14} KL of one from the other {between:.1e}")
            print(f"{path.stem:14} logits spread by {exact.std():.2f}")
            (DATA / f"{path.stem}.bin").write_bytes(exact.astype("<f4").tobytes() + fast.astype("<f2").tobytes())
    order = [line.split('"')[1] for line in (ROOT / "tests/golden.rs").read_text().splitlines() if "Case { name:" in line]
    (DATA / "models.txt").write_text("".join(f"{name} {hashes[name]}\n" for name in order))


if __name__ == "__main__":
    main()
