//! What a model is and takes, as JSON.

use qrun::{
    engine::{Backend, Engine},
    tools::quantize::FileType,
};
use qrun_quant::Gguf;
use serde_json::{Value, json};

/// Name, sizes, device and special tokens.
pub fn info(engine: &Engine) -> Value {
    let (gguf, config, tokenizer) = (engine.gguf(), &engine.model().config, engine.tokenizer());
    let (device, reason) = device_and_reason(engine);
    let template = engine.template().ok().flatten();
    let heads = |n: fn(&qrun_models::LayerPlan) -> usize| config.widest(n);
    json!({
        "name": config.name,
        "path": gguf.path().display().to_string(),
        "architecture": config.arch.name,
        "file_type": file_type(gguf),
        "file_bytes": gguf.file_bytes(),
        "parameters": gguf.tensors().iter().map(|tensor| tensor.len() as u64).sum::<u64>(),
        "bytes_per_token": engine.model().weights.bytes_per_token(),
        "n_ctx": engine.options().n_ctx,
        "n_ctx_train": config.n_ctx_train,
        "n_seq": engine.options().n_seq,
        "n_threads": engine.options().threads,
        "n_ubatch": engine.options().n_ubatch,
        "n_vocab": config.n_vocab,
        "n_embd": config.n_embd,
        "n_layer": config.layers.len(),
        "n_head": heads(|layer| layer.n_head),
        "n_head_kv": heads(|layer| layer.n_head_kv),
        "cache_type_k": engine.options().type_k.name(),
        "cache_type_v": engine.options().type_v.name(),
        "device": device,
        "device_reason": reason,
        "chat_template": template.map(|template| template.name().to_owned()),
        "chat_template_source": template.map(|template| template.source().to_owned()),
        "bos": tokenizer.bos(),
        "eos": tokenizer.eos(),
        "eot": tokenizer.eot(),
        "unk": tokenizer.unk(),
        "pad": tokenizer.pad(),
        "nl": newline(engine),
        "eog": tokenizer.eog().collect::<Vec<_>>(),
        "add_bos": tokenizer.add_bos(),
        "add_eos": tokenizer.add_eos(),
    })
}

/// The token of a line break, where it is one token.
fn newline(engine: &Engine) -> Option<u32> {
    let plain = qrun::text::tokenizer::Encode::PLAIN;
    let tokens = engine.tokenizer().encode("\n", plain).ok()?;
    tokens.into_iter().find(|&id| &*engine.tokenizer().piece(id) == b"\n")
}

/// Bytes by purpose, and what there was.
pub fn plan(engine: &Engine) -> Value {
    let plan = engine.plan();
    json!({
        "device": device_and_reason(engine).0,
        "n_ctx": plan.n_ctx,
        "weights": plan.bytes.weights,
        "kv": plan.bytes.kv,
        "kv_window": plan.bytes.kv_window,
        "activations": plan.bytes.activations,
        "total": plan.bytes.total(),
        "available": plan.available,
    })
}

/// `cpu` or `cudaN`, and why no GPU.
fn device_and_reason(engine: &Engine) -> (String, Option<String>) {
    match engine.backend() {
        Backend::Cpu { reason } => ("cpu".into(), reason.as_ref().map(ToString::to_string)),
        Backend::Gpu { gpu, .. } => (format!("cuda{}", gpu.properties().ordinal), None),
    }
}

fn file_type(gguf: &Gguf) -> Option<&'static str> {
    let number = gguf.get("general.file_type")?.as_u64()?;
    FileType::from_number(number.try_into().ok()?).map(FileType::name)
}
