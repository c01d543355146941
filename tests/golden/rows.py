"""What transformers calls the classes, options and weights of each architecture.

Where it has more than one class for an architecture, the row says what of."""

from dataclasses import dataclass, field


@dataclass
class Row:
    # Its classes begin so: NAMEConfig and NAMEForCausalLM, or those below.
    name: str
    config: str = "Config"
    model: str = "ForCausalLM"
    # Rotary pairs of q and k are (2i, 2i+1) in the file and (i, i + n_rot/2) in transformers.
    adjacent: bool = False
    # Every so many layers one sees everything and the others slide, unless the file says otherwise.
    period: int = 0
    # Fused tensors are so in transformers too.
    fused: bool = False
    # It adds 1 to weights with one of these in their names.
    plus_one: tuple = ()
    # Options that are keys of the file, and others.
    keys: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    rope: dict = field(default_factory=dict)
    # Weights, beside NAMES.
    parts: dict = field(default_factory=dict)
    # Weights outside of layers, beside the embedding, the last norm and the head.
    beside: dict = field(default_factory=dict)
    # The embedding and the last norm.
    embedding: str = "embed_tokens"
    norm: str = "norm"


# Parts of a layer: names before ".weight" and ".bias", or, where they differ in these too, whole names.
NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_gate": "self_attn.gate_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_sinks.weight": "self_attn.sinks",
    "attn_norm": "input_layernorm",
    # A layer has one of these two, or both and names of its own below.
    "ffn_norm": "post_attention_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
    "ffn_gate_up_exps.weight": "mlp.experts.gate_up_proj",
    "ffn_gate_up_exps.bias": "mlp.experts.gate_up_proj_bias",
    "ffn_down_exps.weight": "mlp.experts.down_proj",
    "ffn_down_exps.bias": "mlp.experts.down_proj_bias",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
OUTPUT_NORMS = ("output_norm.weight", "token_embd_norm.weight")
EXPERTS = {
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
}
SHARED_EXPERT = {"shared_expert_intermediate_size": "expert_shared_feed_forward_length"}
LOCAL_EXPERTS = {
    "num_local_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "intermediate_size": "expert_feed_forward_length",
}
GEMMA = dict(
    plus_one=("norm",),
    keys={"query_pre_attn_scalar": "attention.key_length"},
    parts={"ffn_norm": "pre_feedforward_layernorm"},
)
DELTA_NET = dict(
    fused=True,
    plus_one=("layernorm", "q_norm", "k_norm", "model.norm"),
    parts={
        "attn_qkv": "linear_attn.in_proj_qkv",
        "attn_gate": "linear_attn.in_proj_z",
        "ssm_in": "linear_attn.in_proj_qkvz",
        "ssm_alpha": "linear_attn.in_proj_a",
        "ssm_beta": "linear_attn.in_proj_b",
        "ssm_ba": "linear_attn.in_proj_ba",
        "ssm_dt.bias": "linear_attn.dt_bias",
        "ssm_a": "linear_attn.A_log",
        "ssm_conv1d": "linear_attn.conv1d",
        "ssm_norm": "linear_attn.norm",
        "ssm_out": "linear_attn.out_proj",
    },
)
DELTA_KEYS = {
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
    "linear_key_head_dim": "ssm.state_size",
    "linear_conv_kernel_dim": "ssm.conv_kernel",
    "full_attention_interval": "full_attention_interval",
}
SHORT_CONV = dict(
    options={"block_auto_adjust_ff_dim": False},
    norm="embedding_norm",
    parts={
        "attn_norm": "operator_norm",
        "attn_q_norm": "self_attn.q_layernorm",
        "attn_k_norm": "self_attn.k_layernorm",
        "attn_output": "self_attn.out_proj",
        "shortconv.in_proj": "conv.in_proj",
        "shortconv.conv": "conv.conv",
        "shortconv.out_proj": "conv.out_proj",
        "ffn_norm": "ffn_norm",
        "ffn_gate": "feed_forward.w1",
        "ffn_up": "feed_forward.w3",
        "ffn_down": "feed_forward.w2",
        "ffn_gate_inp": "feed_forward.gate",
        "exp_probs_b.bias": "feed_forward.expert_bias",
        "ffn_gate_up_exps.weight": "feed_forward.experts.gate_up_proj",
        "ffn_down_exps.weight": "feed_forward.experts.down_proj",
    },
)
SHARED_EXPERTS = {f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")}
LATENT = dict(
    keys={
        "kv_lora_rank": "attention.kv_lora_rank",
        "qk_rope_head_dim": "rope.dimension_count",
        "v_head_dim": "attention.value_length_mla",
        "n_routed_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "norm_topk_prob": "expert_weights_norm",
        "routed_scaling_factor": "expert_weights_scale",
        "n_group": "expert_group_count",
        "topk_group": "expert_group_used_count",
        "first_k_dense_replace": "leading_dense_block_count",
    },
    options={"n_group": 1, "topk_group": 1, "first_k_dense_replace": 0},
    parts={
        "attn_q_a": "self_attn.q_a_proj",
        "attn_q_a_norm": "self_attn.q_a_layernorm",
        "attn_q_b": "self_attn.q_b_proj",
        "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm": "self_attn.kv_a_layernorm",
        "attn_kv_b": "self_attn.kv_b_proj",
    }
    | SHARED_EXPERTS,
)
FUSED_GATE_UP = {"ffn_up": "mlp.gate_up_proj"}
GRANITE = {
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "attention_multiplier": "attention.scale",
    "logits_scaling": "logit_scale",
}

MAMBA = {
    "ssm_in": "in_proj",
    "ssm_conv1d": "conv1d",
    "ssm_dt.bias": "dt_bias",
    "ssm_a": "A_log",
    "ssm_d": "D",
    "ssm_norm": "norm",
    "ssm_out": "out_proj",
}
GRANITE_MAMBA = {
    "mamba_n_heads": "ssm.time_step_rank",
    "mamba_n_groups": "ssm.group_count",
    "mamba_d_state": "ssm.state_size",
    "mamba_d_conv": "ssm.conv_kernel",
}
GRANITE_SHARED = {
    "ffn_gate_up_shexp": "shared_mlp.input_linear",
    "ffn_down_shexp": "shared_mlp.output_linear",
}
GRANITE_EXPERTS = {
    "ffn_gate_inp": "block_sparse_moe.router",
    "ffn_gate_up_exps.weight": "block_sparse_moe.experts.gate_up_proj",
    "ffn_down_exps.weight": "block_sparse_moe.experts.down_proj",
}
NEMOTRON = dict(
    # What has no gate is not two in one.
    fused=True,
    embedding="embeddings",
    norm="norm_f",
    keys={
        "mamba_num_heads": "ssm.time_step_rank",
        "n_groups": "ssm.group_count",
        "ssm_state_size": "ssm.state_size",
        "conv_kernel": "ssm.conv_kernel",
        "num_experts_per_tok": "expert_used_count",
        "n_routed_experts": "expert_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "moe_shared_expert_intermediate_size": "expert_shared_feed_forward_length",
        "norm_topk_prob": "expert_weights_norm",
        "routed_scaling_factor": "expert_weights_scale",
        "n_group": "expert_group_count",
        "topk_group": "expert_group_used_count",
    },
    # Time steps are as projected, however small; 0 itself it does not take.
    options={"time_step_min": 1e-30},
    parts={
        "attn_norm": "norm",
        **{f"attn_{part}": f"mixer.{part}_proj" for part in "qkv"},
        "attn_output": "mixer.o_proj",
        **{part: f"mixer.{name}" for part, name in MAMBA.items()},
        "ffn_up": "mixer.up_proj",
        "ffn_down": "mixer.down_proj",
        "ffn_gate_inp": "mixer.gate",
        "exp_probs_b.bias": "mixer.gate.e_score_correction_bias",
        "ffn_up_exps.weight": "mixer.experts.up_proj",
        "ffn_down_exps.weight": "mixer.experts.down_proj",
        "ffn_up_shexp": "mixer.shared_experts.up_proj",
        "ffn_down_shexp": "mixer.shared_experts.down_proj",
        "ffn_latent_down": "mixer.fc1_latent_proj",
        "ffn_latent_up": "mixer.fc2_latent_proj",
    },
)

ROWS = {
    "llama": Row("Llama", adjacent=True),
    "llama with experts": Row("Mixtral", adjacent=True, keys=LOCAL_EXPERTS),
    "smollm3": Row("SmolLM3", adjacent=True, options={"no_rope_layer_interval": 4}),
    "qwen2": Row("Qwen2"),
    "qwen3": Row("Qwen3"),
    "gemma2": Row("Gemma2", period=2, **GEMMA),
    "gemma3": Row("Gemma3", config="TextConfig", period=6, **GEMMA),
    "gemma4": Row(
        "Gemma4",
        config="TextConfig",
        period=6,
        keys=EXPERTS | {"top_k_experts": "expert_used_count"},
        rope={"rope_type": "proportional"},
        parts={
            "ffn_norm": "pre_feedforward_layernorm",
            "layer_output_scale.weight": "layer_scalar",
            "inp_gate": "per_layer_input_gate",
            "proj": "per_layer_projection",
            "post_norm": "post_per_layer_input_norm",
            "ffn_gate_inp": "router.proj",
            "ffn_gate_inp.scale": "router.scale",
            "ffn_gate_up_exps.weight": "experts.gate_up_proj",
            "ffn_down_exps.weight": "experts.down_proj",
            "ffn_down_exps.scale": "router.per_expert_scale",
            "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
            "post_ffw_norm_1": "post_feedforward_layernorm_1",
            "post_ffw_norm_2": "post_feedforward_layernorm_2",
        },
        beside={
            "per_layer_token_embd": "embed_tokens_per_layer",
            "per_layer_model_proj": "per_layer_model_projection",
            "per_layer_proj_norm": "per_layer_projection_norm",
        },
    ),
    "qwen2moe": Row(
        "Qwen2Moe",
        keys=EXPERTS | SHARED_EXPERT,
        options={"norm_topk_prob": False},
    ),
    "qwen3moe": Row("Qwen3Moe", keys=EXPERTS, options={"norm_topk_prob": True}),
    "qwen3vl": Row("Qwen3VL", config="TextConfig", model="TextModel"),
    "qwen3vlmoe": Row(
        "Qwen3VLMoe", config="TextConfig", model="TextModel", keys=EXPERTS, options={"norm_topk_prob": True}
    ),
    "gpt-oss": Row(
        "GptOss", period=2, keys=LOCAL_EXPERTS, rope={"truncate": False}, parts={"ffn_gate_inp": "mlp.router"}
    ),
    "mistral3": Row("Ministral3", adjacent=True),
    "phi3": Row("Phi3", fused=True, parts=FUSED_GATE_UP),
    "glm4": Row(
        "Glm4",
        fused=True,
        parts=FUSED_GATE_UP
        | {"post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm"},
    ),
    "glm4moe": Row(
        "Glm4Moe",
        keys=EXPERTS
        | {
            "n_routed_experts": "expert_count",
            "norm_topk_prob": "expert_weights_norm",
            "routed_scaling_factor": "expert_weights_scale",
            "n_group": "expert_group_count",
            "topk_group": "expert_group_used_count",
            "first_k_dense_replace": "leading_dense_block_count",
        },
        options={"first_k_dense_replace": 0},
        parts=SHARED_EXPERTS,
    ),
    "seed_oss": Row("SeedOss"),
    "olmo2": Row("Olmo2"),
    "olmo2 with a window": Row("Olmo3", period=4),
    "exaone4": Row("Exaone4", period=4),
    "cohere2": Row("Cohere2", period=4, keys={"logit_scale": "logit_scale"}),
    "granite": Row("Granite", adjacent=True, keys=GRANITE),
    "granitemoe": Row(
        "GraniteMoeShared",
        adjacent=True,
        keys=GRANITE | LOCAL_EXPERTS | {"shared_intermediate_size": "expert_shared_feed_forward_length"},
        parts=GRANITE_EXPERTS | GRANITE_SHARED,
    ),
    "granitehybrid": Row(
        "GraniteMoeHybrid",
        adjacent=True,
        keys=GRANITE | GRANITE_MAMBA | {"shared_intermediate_size": "feed_forward_length"},
        options={"num_local_experts": 0},
        parts=GRANITE_SHARED | {part: f"mamba.{name}" for part, name in MAMBA.items()},
    ),
    "granitehybrid with experts": Row(
        "GraniteMoeHybrid",
        adjacent=True,
        keys=GRANITE
        | GRANITE_MAMBA
        | LOCAL_EXPERTS
        | {"shared_intermediate_size": "expert_shared_feed_forward_length"},
        parts=GRANITE_EXPERTS | GRANITE_SHARED | {part: f"mamba.{name}" for part, name in MAMBA.items()},
    ),
    "muse-glimmer": Row(
        "MuseGlimmer",
        config="TextConfig",
        model="TextModel",
        adjacent=True,
        period=4,
        plus_one=("layernorm",),
        keys={"output_multiplier": "logit_scale", "final_logit_softcapping": "final_logit_softcapping"},
        parts={"ffn_norm": "pre_feedforward_layernorm"},
    ),
    "qwen35": Row("Qwen3_5", config="TextConfig", keys=DELTA_KEYS, **DELTA_NET),
    "qwen35moe": Row("Qwen3_5Moe", config="TextConfig", keys=DELTA_KEYS | EXPERTS | SHARED_EXPERT, **DELTA_NET),
    "qwen3next": Row(
        "Qwen3Next", keys=DELTA_KEYS | EXPERTS | SHARED_EXPERT, options={"norm_topk_prob": True}, **DELTA_NET
    ),
    "deepseek2": Row("DeepseekV3", **LATENT),
    "deepseek2 by softmax": Row("DeepseekV2", **LATENT),
    "mistral4": Row("Mistral4", **LATENT),
    "lfm2": Row("Lfm2", keys={"conv_L_cache": "shortconv.l_cache"}, **SHORT_CONV),
    "lfm2moe": Row(
        "Lfm2Moe",
        keys=EXPERTS | {"conv_L_cache": "shortconv.l_cache", "num_dense_layers": "leading_dense_block_count"},
        **SHORT_CONV,
    ),
    "nemotron_h": Row("NemotronH", **NEMOTRON),
    "nemotron_h_moe": Row("NemotronH", **NEMOTRON),
}
