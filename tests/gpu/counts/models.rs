//! The decoder on emulated devices.

use std::{
    fs::{self, File},
    io::{self, Seek, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, bail, ensure};
use qrun::{
    tools::quantize::FileType,
    tools::synth::{self, Shape, Vocab},
};
use qrun_cuda::{Gpu, ops::sample::Sampling};
use qrun_emulator::{Config, Counters, Machine};
use qrun_models::{Entry, Forward, GpuDecoder, Model, Options, Output, Row, SamplingRequest};
use qrun_quant::{Bytes, GgmlType, Gguf};
use serde_json::{Value, json};

const CONTEXT: usize = 1024;
const MIX: &str = "Q4_K_M";

fn mix() -> FileType {
    FileType::from_name(MIX).expect("a mix of the table")
}

pub fn options() -> Options {
    Options { n_ctx: CONTEXT, n_ubatch: 64, ..Options::default() }
}

pub fn greedy(history: Vec<u32>) -> SamplingRequest {
    SamplingRequest { sampling: Sampling::default(), bias: Vec::new(), history }
}

fn entry(token: u32, pos: u32) -> Entry {
    Entry { token, pos, seq: 0, output: Output::None }
}

/// A file that takes no room: a model in its exact shape, vectors of ones, and holes where the matrices belong.
pub struct Hollow(pub PathBuf);

/// Leaves a hole for each chunk of zeros.
struct Sparse(File);

impl Write for Sparse {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        if chunk.iter().any(|b| *b != 0) {
            return self.0.write(chunk);
        }
        self.0.seek_relative(chunk.len() as i64)?;
        Ok(chunk.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        let end = self.0.stream_position()?;
        self.0.set_len(end)
    }
}

impl Hollow {
    pub fn new(name: &str) -> Result<Self> {
        const ZEROS: &[u8] = &[0; 1 << 20];
        let header = synth::find(name).context("a model of the table")?.header(mix())?;
        let made = Self(std::env::temp_dir().join(format!("qrun-counts-{}-{name}.gguf", std::process::id())));
        let mut writer = header.write_to(&made.0, Sparse(File::create(&made.0)?))?;
        for tensor in &header.tensors {
            let elements = tensor.shape.iter().product::<u64>() as usize;
            if tensor.ty == GgmlType::F32 {
                writer.write(&1f32.to_le_bytes().repeat(elements))?;
                continue;
            }
            let mut left = tensor.ty.bytes_of(elements);
            while left > 0 {
                let n = left.min(ZEROS.len());
                writer.write(&ZEROS[..n])?;
                left -= n;
            }
        }
        writer.finish()?;
        Ok(made)
    }
}

impl Drop for Hollow {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Feeds a token; the one that the device samples after it.
pub fn next(decoder: &mut GpuDecoder, token: u32, pos: u32) -> Result<u32> {
    let entry = Entry { output: Output::Token, ..entry(token, pos) };
    match decoder.step(&[entry][..].into())?.iter().next() {
        Some(Row::Token(sampled)) => Ok(sampled.token()),
        _ => bail!("the decoder does not sample"),
    }
}

/// Launches of a step that feeds a token, and samples the next one on the device.
pub fn launches_per_token(name: &str) -> Result<Value> {
    let file = Hollow::new(name)?;
    let model = Model::load(&Gguf::open(&file.0)?)?;
    let machine = Machine::new(Config { execute: false, memory: 64 << 30, ..Config::default() });
    let _here = machine.enter();
    let gpu = Gpu::open(0)?;
    let mut decoder = GpuDecoder::new(&gpu, &model, &options())?;
    // A prompt with an output: what follows is a step of decoding.
    decoder.forward(&[Entry { output: Output::Logits, ..entry(1, 0) }])?;
    ensure!(decoder.set_sampling(0, &greedy(vec![1, 1]))?, "{name}: the decoder does not sample");
    machine.reset_counters();
    // Nothing is computed, so no token comes: the step is launched, and then missed.
    ensure!(next(&mut decoder, 1, 1).is_err(), "{name}: a token without arithmetic");
    per_step(&machine.counters()).with_context(|| name.to_owned())
}

/// The launches of a step, the first of which runs as it is and the others as a graph: each begins with an embedding.
fn per_step(counters: &Counters) -> Result<Value> {
    let steps = counters.launches.get("embed").copied().unwrap_or(0);
    let launches: u64 = counters.launches.values().sum();
    ensure!(steps > 0 && launches.is_multiple_of(steps), "{launches} launches in {steps} steps");
    Ok((launches / steps).into())
}

/// What steps cost beside launches.
pub struct Steps {
    /// Waits of the host.
    pub syncs_per_token: f64,
    /// Allocations of device memory, over all steps.
    pub allocations: u64,
}

/// Waits and allocations over a prompt and 16 sampled tokens, with arithmetic.
pub fn steps() -> Result<Steps> {
    const TOKENS: u64 = 16;
    let machine = Machine::new(Config::default());
    let _here = machine.enter();
    let gpu = Gpu::open(0)?;
    let shape = synth::find("tiny-gemma3").context("a model of the table")?;
    let mut decoder = GpuDecoder::new(&gpu, &in_memory(shape)?, &options())?;
    machine.reset_counters();
    let mut prompt: Vec<Entry> = (0..32).map(|i| entry(i, i)).collect();
    prompt[31].output = Output::Logits;
    decoder.forward(&prompt)?;
    ensure!(decoder.set_sampling(0, &greedy((0..33).collect()))?, "the decoder does not sample");
    // The first one is waited for, the second is recorded.
    let mut token = next(&mut decoder, 32, 32)?;
    let before = machine.counters();
    for pos in 33..33 + TOKENS as u32 {
        token = next(&mut decoder, token, pos)?;
    }
    let after = machine.counters();
    Ok(Steps { syncs_per_token: (after.syncs - before.syncs) as f64 / TOKENS as f64, allocations: after.allocations })
}

fn in_memory(shape: &Shape) -> Result<Model> {
    let bytes = synth::shape_bytes(shape, mix(), 0)?;
    Ok(Model::load(&Gguf::from_bytes(shape.name, Bytes::new(bytes))?)?)
}

/// Bytes that a step's kernels read of all device memory (each byte once per launch), over those of the weights and
/// of the KV cache that it needs: one layer in the model's own widths, with a small vocabulary, after a short prompt.
pub fn bytes_read(name: &str) -> Result<Value> {
    const LAYERS: usize = 1;
    const PROMPT: u32 = 1;
    let shape = synth::find(name).context("a model of the table")?;
    let shape = Shape { n_layer: LAYERS, vocab: Vocab { size: 1024, ..shape.vocab }, ..*shape };
    let model = in_memory(&shape)?;
    let machine = Machine::new(Config::checked());
    let _here = machine.enter();
    let gpu = Gpu::open(0)?;
    let mut decoder = GpuDecoder::new(&gpu, &model, &options())?;
    let base = decoder.arena().0;
    for part in decoder.parts().iter().filter(|p| p.bytes > 0) {
        machine.fence(base + part.offset, part.bytes, &part.name);
    }
    let prompt: Vec<Entry> = (0..PROMPT).map(|i| Entry { output: Output::Logits, ..entry(i, i) }).collect();
    decoder.forward(&prompt)?;
    machine.reset_counters();
    decoder.forward(&[Entry { output: Output::Logits, ..entry(PROMPT, PROMPT) }])?;
    let traffic = machine.counters().traffic;
    let read =
        |purpose: &str| -> u64 { traffic.iter().filter(|(n, _)| n.starts_with(purpose)).map(|(_, t)| t.read).sum() };
    // f16 keys and values of all positions, in all layers: the prompt is shorter than any window.
    let kv = 2 * 2 * LAYERS as u64 * u64::from(PROMPT + 1) * (shape.n_head_kv * shape.head_dim) as u64;
    let needed = decoder.bytes_per_token() + kv;
    let over = |bytes: u64| (bytes as f64 / needed as f64 * 1e4).round() / 1e4;
    let (weights, cached) = (read("weights/"), read("kv/"));
    Ok(json!({ "all": over(read("")), "weights_and_kv": over(weights + cached), "needed_bytes": needed }))
}
