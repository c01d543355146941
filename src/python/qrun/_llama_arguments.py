"""llama-cpp-python's arguments that qrun does not follow, and why."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ._arguments import Refusals

NEW_SEED = 4294967295
"""llama.cpp's default seed: a new one by chance."""

CACHE_TYPES: Dict[Optional[int], str] = {None: "f16", 0: "f32", 1: "f16", 8: "q8_0"}
"""Types of cached keys and values, by ggml's numbers."""

POOLING: Dict[int, str] = {-1: "unspecified", 0: "none", 1: "mean", 2: "cls", 3: "last"}
"""How hidden states become one vector, by llama.cpp's numbers; -1: as the file says, and where it does not as with 0."""

ANSWERS = ("chat_template", "n_seq")
"""Arguments of `qrun.Engine` that `qrun.Embedder` does not have."""

_LORA = "qrun runs no LoRA adapters: merge the adapter into the model before it becomes a GGUF file"
_ROPE = "positions are scaled as the file says; a context beyond that is not offered"
_GRAMMAR = "a grammar holds for a whole answer; create_completion takes one"
_SAMPLER = "this sampler is not implemented; temperature, top_k, top_p, min_p, typical_p and the penalties are"

CONSTRUCTOR: Refusals = {
    "lora_base": ((None,), _LORA),
    "lora_path": ((None,), _LORA),
    "draft_model": ((None,), "speculative decoding is not implemented"),
    "rope_scaling_type": ((None, -1), _ROPE),
    "rope_freq_base": ((0.0,), _ROPE),
    "rope_freq_scale": ((0.0, 1.0), _ROPE),
    "yarn_ext_factor": ((-1.0,), _ROPE),
    "yarn_attn_factor": ((1.0,), _ROPE),
    "yarn_beta_fast": ((32.0,), _ROPE),
    "yarn_beta_slow": ((1.0,), _ROPE),
    "yarn_orig_ctx": ((0,), _ROPE),
    "tensor_split": ((None,), "a model runs on one GPU"),
    "split_mode": ((0, 1), "a model runs on one GPU"),
    "pooling_type": ((-1, 0, 1, 2, 3), "scores of a reranker (4) are not implemented"),
    "attention_type": ((-1, 0), "attention is causal"),
    "spm_infill": ((False,), "infilling is not implemented"),
    "chat_format": ((None,), "the file's own chat template is used; chat_template= gives another one"),
    "chat_handler": (
        (None,),
        "images and formats of one's own are not implemented; chat_template= gives another template",
    ),
    "tokenizer": ((None,), "the file's own tokenizer is used"),
    "kv_overrides": ((None,), "the file's metadata is used as it stands"),
    "vocab_only": ((False,), "a model is opened whole; qrun.Gguf reads a file without its weights"),
    "type_k": (tuple(CACHE_TYPES), "cached keys are f32 (0), f16 (1) or q8_0 (8)"),
    "type_v": (tuple(CACHE_TYPES), "cached values are f32 (0), f16 (1) or q8_0 (8)"),
}
"""Arguments of `Llama` that would change the text."""

CALL: Refusals = {
    "suffix": ((None,), "infilling is not implemented; put the text behind the answer yourself"),
    "tfs_z": ((1.0,), _SAMPLER),
    "mirostat_mode": ((0,), _SAMPLER),
    "stopping_criteria": ((None,), "use stop, or stream=True and end the iteration"),
    "penalize_nl": ((True,), "the penalties hold for all tokens"),
}
"""Arguments of a call that would change the text."""

STEP: Refusals = {**CALL, "grammar": ((None,), _GRAMMAR)}
"""The same of `sample` and `generate`."""

CHAT: Refusals = {
    **CALL,
    "functions": ((None,), "deprecated by OpenAI; use tools"),
    "function_call": ((None, "none", "auto"), "deprecated by OpenAI; use tools"),
}
"""The same of a chat."""

WITHOUT_EFFECT: Dict[str, Tuple[Any, str]] = {
    "use_mmap": (True, "files are always mapped, and weights repacked where that is faster"),
    "use_mlock": (False, "repacked weights are the process's own memory"),
    "numa": (False, "threads are placed by the system"),
    "offload_kqv": (True, "the cache is where the model is"),
    "flash_attn": (False, "attention is always computed without the whole matrix"),
    "op_offload": (None, "a model runs wholly where its weights are"),
    "n_threads_batch": (None, "prompts and steps take n_threads threads"),
    "n_batch": (512, "n_ubatch tokens of a prompt go through the layers together"),
    "main_gpu": (0, "CUDA_VISIBLE_DEVICES chooses the GPU"),
    "no_perf": (False, "timings are in Completion.timings of qrun.Engine"),
    "lora_scale": (1.0, "there is no LoRA adapter to scale"),
}
"""Arguments that change nothing: their defaults, and why."""


def grammar_text(grammar: Any) -> str:
    """The GBNF of a grammar: a text, or an object of llama-cpp-python's `LlamaGrammar`."""
    text = grammar if isinstance(grammar, str) else getattr(grammar, "_grammar", None)
    if not isinstance(text, str):
        raise TypeError(f"grammar: expected GBNF text or a LlamaGrammar, found {type(grammar).__name__}")
    return text


def constraint(response_format: Any) -> Dict[str, Any]:
    """What `response_format` asks for in `Engine.generate`'s words; llama-cpp-python puts the schema beside the type."""
    if response_format is None or response_format.get("type") == "text":
        return {}
    schema = response_format.get("schema")
    if schema is not None:
        return {"json_schema": schema}
    return {"response_format": response_format}
