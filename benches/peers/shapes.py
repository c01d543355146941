"""A model of transformers with the shapes of a GGUF file and random weights: as fast as one with the file's."""

import sys

FAMILIES = {"gemma3": "Gemma3Text", "llama": "Llama", "qwen3": "Qwen3"}


def read(path):
    """The configuration of the file's model, and its number of weights."""
    import gguf
    import transformers

    reader = gguf.GGUFReader(path)
    arch = reader.get_field("general.architecture").contents()
    if arch not in FAMILIES:
        sys.exit(f"{path}: architecture {arch}: expected one of {', '.join(FAMILIES)}")

    def key(name, default=None):
        field = reader.get_field(f"{arch}.{name}")
        return default if field is None else field.contents()

    tensors = {t.name: t for t in reader.tensors}
    rope = {"rope_type": "default", "rope_theta": key("rope.freq_base")}
    fields = {
        "vocab_size": key("vocab_size"),
        "hidden_size": key("embedding_length"),
        "intermediate_size": key("feed_forward_length"),
        "num_hidden_layers": key("block_count"),
        "num_attention_heads": key("attention.head_count"),
        "num_key_value_heads": key("attention.head_count_kv"),
        "head_dim": key("attention.key_length"),
        "max_position_embeddings": key("context_length"),
        "rms_norm_eps": key("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in tensors,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "rope_parameters": rope,
    }
    if arch == "gemma3":
        local = {"rope_type": "default", "rope_theta": key("rope.freq_base_swa", 10000.0)}
        fields["rope_parameters"] = {"full_attention": rope, "sliding_attention": local}
        fields["sliding_window"] = key("attention.sliding_window")
        fields["query_pre_attn_scalar"] = fields["head_dim"]
    config = getattr(transformers, f"{FAMILIES[arch]}Config")(**fields)
    return config, sum(int(t.n_elements) for name, t in tensors.items() if name != "rope_freqs.weight")


def model(path, device="cpu"):
    """The model in bf16, without its file's weights but with as many."""
    import torch
    import transformers
    from transformers.initialization import no_init_weights

    config, expected = read(path)
    with torch.device(device), no_init_weights():
        built = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    built.tie_weights()
    found = sum(p.numel() for p in built.parameters())
    if found != expected:
        sys.exit(f"{path}: {expected} weights in the file, {found} in the model of transformers")
    # One row of random numbers many times over: products take as long, and this takes no minute.
    noise = torch.randn(1 << 20, dtype=torch.bfloat16, device=device) * 0.02
    with torch.no_grad():
        for p in built.parameters():
            flat = p.view(-1)
            for at in range(0, flat.numel(), noise.numel()):
                part = flat[at : at + noise.numel()]
                part.copy_(noise[: part.numel()])
    return built.eval()
