//! Whole models, made on the spot: prompts of 512 tokens, and 128 drawn ones.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use qrun::{quantize::FileType, synth};
use qrun_cuda::{
    Gpu,
    ops::sample::{Sampling, Status},
};
use qrun_models::{Drawing, Entry, Forward, GpuDecoder, Model, Options};
use qrun_quant::Gguf;
use serde_json::{Value, json};

use crate::Setup;

/// The smaller ones first: who runs out of time has them.
const MODELS: [(&str, &str); 8] = [
    ("gemma-3-1b", "Q4_K_M"),
    ("gemma-3-1b", "Q8_0"),
    ("gemma-3-1b", "BF16"),
    ("llama-3.2-1b", "Q4_K_M"),
    ("llama-3.2-1b", "BF16"),
    ("qwen3-1.7b", "Q4_K_M"),
    ("qwen3-1.7b", "BF16"),
    ("llama-3.1-8b", "Q4_K_M"),
];
/// No model is begun after this.
const ENOUGH: Duration = Duration::from_secs(140);

/// Where the files lie while they are needed.
pub const FOLDER: &str = "models";

struct Lengths {
    prompt: u32,
    drawn: u32,
    runs: u32,
}

/// Tokens per second of each model; one that fails says so and leaves the others alone.
pub fn speed(setup: &Setup) -> Result<Value> {
    let began = Instant::now();
    let (models, lengths): (&[_], _) = match setup.dry {
        true => (&[("tiny-gemma3", "Q4_K_M"), ("tiny-qwen3", "BF16")], Lengths { prompt: 16, drawn: 4, runs: 1 }),
        false => (&MODELS, Lengths { prompt: 512, drawn: 128, runs: 3 }),
    };
    let folder = setup.out.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let mut rows = Vec::new();
    for (name, mix) in models {
        let row = match began.elapsed() {
            passed if passed > ENOUGH => Err(anyhow::anyhow!("not begun after {} s", passed.as_secs())),
            _ => measure(&folder.join("model.gguf"), (name, mix), &lengths),
        };
        rows.push(row.unwrap_or_else(|e| json!({ "model": name, "mix": mix, "failed": format!("{e:#}") })));
    }
    fs::remove_dir_all(folder)?;
    let failed: Vec<String> = rows.iter().filter(|r| r.get("failed").is_some()).map(Value::to_string).collect();
    if failed.len() == rows.len() {
        bail!("every model failed: {}", failed.join(", "));
    }
    Ok(Value::Array(rows))
}

fn measure(path: &Path, (name, mix): (&str, &str), lengths: &Lengths) -> Result<Value> {
    let file_type = FileType::from_name(mix).context("a mix of the table")?;
    synth::synth(name, file_type, 0, path, &mut |_, _| {})?;
    let model = Model::load(&Gguf::open(path)?)?;
    let gpu = Gpu::open(0)?;
    let began = Instant::now();
    let options = Options { n_ctx: 1024, ..Options::default() };
    let mut decoder = GpuDecoder::new(&gpu, &model, &options)?;
    let load = began.elapsed().as_secs_f64();
    let prompt: Vec<Entry> =
        (0..lengths.prompt).map(|pos| Entry { token: pos, pos, seq: 0, logits: pos + 1 == lengths.prompt }).collect();
    let (mut prefill, mut decode) = (0f64, 0f64);
    for _ in 0..lengths.runs {
        decoder.rewind(0, 0);
        let began = Instant::now();
        let logits = decoder.forward(&prompt)?;
        ensure!(logits.iter().all(|l| l.is_finite()), "a logit of the prompt is not finite");
        prefill = prefill.max(f64::from(lengths.prompt) / began.elapsed().as_secs_f64());
        decode = decode.max(draw(&mut decoder, &prompt, lengths.drawn)?);
    }
    let bytes = decoder.bytes_per_token();
    let rounded = |x: f64| (x * 10.0).round() / 10.0;
    Ok(json!({
        "model": name,
        "mix": mix,
        format!("pp{}_tok_per_s", lengths.prompt): rounded(prefill),
        format!("tg{}_tok_per_s", lengths.drawn): rounded(decode),
        "tg_GB_per_s": rounded(bytes as f64 * decode / 1e9),
        "MB_per_token": rounded(bytes as f64 / 1e6),
        "load_s": rounded(load),
    }))
}

/// Tokens per second of greedy drawing after the prompt.
fn draw(decoder: &mut GpuDecoder, prompt: &[Entry], n: u32) -> Result<f64> {
    let mut history: Vec<u32> = prompt.iter().map(|e| e.token).collect();
    history.push(1);
    let drawing = Drawing { sampling: Sampling::default(), bias: Vec::new(), history };
    ensure!(decoder.begin_drawing(0, &drawing)?, "the decoder does not draw");
    // The first step records the graph.
    let mut token = 1;
    let mut step = || {
        let drawn = decoder.draw(token)?.context("the decoder stopped drawing")?;
        ensure!(drawn.status() == Status::Drawn, "no token: {:?}", drawn.status());
        token = drawn.token();
        Ok(())
    };
    step()?;
    let began = Instant::now();
    (0..n).try_for_each(|_| step())?;
    let speed = f64::from(n) / began.elapsed().as_secs_f64();
    decoder.end_drawing()?;
    Ok(speed)
}
