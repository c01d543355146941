//! qrun's own turn.

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::{Result, ensure};
use qrun::{
    bench::machine,
    engine::{DevicePreference, Engine, EngineOptions},
};
use qrun_models::{Entry, Options, Output};
use qrun_quant::Gguf;
use serde_json::{Value, json};

use super::Args;

/// Tokens per second of a prompt and of greedy decoding after it, the tokenizer not in it.
pub fn turn(args: &Args, file: &Path) -> Result<Value> {
    let options = Options { n_ctx: args.prefill + args.decode, threads: args.threads, ..Options::default() };
    let device = if args.device == "cuda" { DevicePreference::Cuda(None) } else { DevicePreference::Cpu };
    let engine = Arc::new(Engine::open(Gguf::open(file)?, EngineOptions { options, template: None, device })?);
    let precision = match device {
        DevicePreference::Cuda(_) => "weights as in the file, KV f16",
        _ => {
            "weights as in the file, activations int8 (prompts 16-bit fixed point, steps f32 where weights are floats), KV f16"
        }
    };
    let mut decoder = engine.decoder(Box::new(|_| ()))?;
    // The same tokens as turn.py has.
    let token = |pos: usize| 100 + (pos * 7919 % 900) as u32;
    let entry =
        |token: u32, pos: usize, logits| Entry { token, pos: pos as u32, seq: 0, output: Output::logits_if(logits) };
    // Everything touched once before the clock starts, as the peers do.
    decoder.forward(&[entry(0, 0, true)])?;
    decoder.rewind(0, 0);
    let batch: Vec<_> = (0..args.prefill).map(|pos| entry(token(pos), pos, pos + 1 == args.prefill)).collect();
    let start = Instant::now();
    let mut following = likeliest(decoder.forward(&batch)?)?;
    let prefill = args.prefill as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for pos in args.prefill..args.prefill + args.decode {
        following = likeliest(decoder.forward(&[entry(following, pos, true)])?)?;
    }
    let decode = args.decode as f64 / start.elapsed().as_secs_f64();
    Ok(json!({
        "prefill": prefill, "decode": decode, "prefill_tokens": args.prefill, "decode_tokens": args.decode,
        "weights": "the same file", "precision": precision,
        "peak_mib": machine::peak_memory().map(|bytes| bytes >> 20), "bytes_per_token": decoder.bytes_per_token(),
        "versions": { "qrun": env!("CARGO_PKG_VERSION") },
    }))
}

/// The most probable token.
fn likeliest(logits: &[f32]) -> Result<u32> {
    ensure!(logits.iter().all(|l| l.is_finite()), "logits are not finite");
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    Ok(best.map_or(0, |(token, _)| token as u32))
}
