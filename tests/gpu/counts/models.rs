//! The decoder on emulated devices.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use qrun::tools::{quantize::FileType, synth};
use qrun_cuda::{Gpu, ops::sample::Sampling};
use qrun_emulator::{Config, Machine, isa::Keep};
use qrun_models::{Entry, Forward, GpuDecoder, Model, Options, Output, Row, SamplingRequest};
use qrun_quant::{Bytes, GgmlType, Gguf};
use serde_json::{Value, json};

/// Of tensors in a file.
const ALIGNMENT: usize = 32;

/// What models are counted in.
pub const MIX: &str = "Q4_K_M";

fn mix(name: &str) -> FileType {
    FileType::from_name(name).expect("a mix of the table")
}

fn shape(name: &str) -> Result<&'static synth::Shape> {
    synth::find(name).context("a model of the table")
}

pub fn greedy(history: Vec<u32>) -> SamplingRequest {
    SamplingRequest { sampling: Sampling::default(), bias: Vec::new(), history, masked: false }
}

/// A token without an output.
pub fn entry(token: u32, pos: u32) -> Entry {
    Entry { token, pos, seq: 0, output: Output::None, drafted: false }
}

/// A model in its exact shape: vectors of ones, and matrices of zeros that nobody touches, which take no memory.
pub fn hollow(name: &str, of: &str) -> Result<Model> {
    let header = shape(name)?.header(mix(of))?;
    let mut head = Vec::new();
    drop(header.write_to(name.as_ref(), &mut head)?);
    let sizes = header.tensors.iter().map(|t| t.ty.bytes_of(t.shape.iter().product::<u64>() as usize));
    let mut at = head.len();
    let mut file = vec![0; at + sizes.clone().map(|size| size.next_multiple_of(ALIGNMENT)).sum::<usize>()];
    file[..at].copy_from_slice(&head);
    for (tensor, size) in header.tensors.iter().zip(sizes) {
        if tensor.ty == GgmlType::F32 {
            file[at..at + size].copy_from_slice(&1f32.to_le_bytes().repeat(size / 4));
        }
        at += size.next_multiple_of(ALIGNMENT);
    }
    load(name, file)
}

fn load(name: &str, file: Vec<u8>) -> Result<Model> {
    Ok(Model::load(&Gguf::from_bytes(name, Bytes::new(file))?)?)
}

/// Matrices of a model's file by name: type, and how many weights.
pub fn matrices(name: &str, of: &str) -> Result<BTreeMap<String, (GgmlType, u64)>> {
    let tensors = shape(name)?.header(mix(of))?.tensors.into_iter().filter(|t| t.shape.len() > 1);
    Ok(tensors.map(|t| (t.name, (t.ty, t.shape.iter().product()))).collect())
}

/// What decoders are counted with, unless a step needs more: a context of 1024 tokens, prompts 64 at a time.
pub fn options() -> Options {
    Options { n_ctx: 1024, n_ubatch: 64, ..Options::default() }
}

/// Does something with a decoder on an emulated device.
pub fn on<T>(device: Config, model: &Model, work: impl FnOnce(&Machine, &mut GpuDecoder) -> Result<T>) -> Result<T> {
    on_loaded(device, options(), Keep::default(), model, work)
}

/// The same with options, and with what is kept of the launches that load the weights.
pub fn on_loaded<T>(
    device: Config,
    options: Options,
    keep: Keep,
    model: &Model,
    work: impl FnOnce(&Machine, &mut GpuDecoder) -> Result<T>,
) -> Result<T> {
    let machine = Machine::new(device);
    let _here = machine.enter();
    machine.keep(keep);
    work(&machine, &mut GpuDecoder::new(&Gpu::open(0)?, model, &options)?)
}

/// Feeds a token; the one that the device samples after it.
pub fn next(decoder: &mut GpuDecoder, token: u32, pos: u32) -> Result<u32> {
    Ok(next_of_each(decoder, &[token], pos)?[0])
}

/// Feeds each sequence its token; those that the device samples after them.
pub fn next_of_each(decoder: &mut GpuDecoder, tokens: &[u32], pos: u32) -> Result<Vec<u32>> {
    let fed = tokens.iter().zip(0..).map(|(token, seq)| Entry { seq, output: Output::Token, ..entry(*token, pos) });
    let rows = decoder.step(&fed.collect::<Vec<_>>()[..].into())?;
    let sampled = rows.iter().map(|row| match row {
        Row::Token(sampled) => Ok(sampled.token()),
        _ => bail!("the decoder does not sample"),
    });
    sampled.collect()
}

/// Launches of a step that feeds a token, and samples the next one on the device.
pub fn launches_per_token(name: &str) -> Result<Value> {
    let device = Config { execute: false, memory: 64 << 30, ..Config::default() };
    on(device, &hollow(name, MIX)?, |machine, decoder| {
        // A prompt with an output: what follows is a step of decoding.
        decoder.forward(&[Entry { output: Output::Logits, ..entry(1, 0) }])?;
        ensure!(decoder.set_sampling(0, &greedy(vec![1, 1]))?, "{name}: the decoder does not sample");
        machine.reset_counters();
        // Nothing is computed, so no token comes: the step is launched, and then missed.
        ensure!(next(decoder, 1, 1).is_err(), "{name}: a token without arithmetic");
        // The first step runs as it is and the others as a graph: each begins with an embedding.
        let by_kernel = machine.counters().launches;
        let (steps, all) = (by_kernel.get("embed").copied().unwrap_or(0), by_kernel.values().sum::<u64>());
        ensure!(steps > 0 && all.is_multiple_of(steps), "{name}: {all} launches in {steps} steps");
        Ok((all / steps).into())
    })
}

/// Waits of the host per token, and allocations of device memory, over a prompt and 16 sampled tokens, with arithmetic.
pub fn waits_and_allocations() -> Result<(f64, u64)> {
    const TOKENS: u64 = 16;
    let model = load("tiny-gemma3", synth::shape_bytes(shape("tiny-gemma3")?, mix(MIX), 0)?)?;
    on(Config::default(), &model, |machine, decoder| {
        machine.reset_counters();
        let mut prompt: Vec<Entry> = (0..32).map(|i| entry(i, i)).collect();
        prompt[31].output = Output::Logits;
        decoder.forward(&prompt)?;
        ensure!(decoder.set_sampling(0, &greedy((0..33).collect()))?, "the decoder does not sample");
        // The first one is waited for, the second is recorded.
        let mut token = next(decoder, 32, 32)?;
        let before = machine.counters();
        for pos in 33..33 + TOKENS as u32 {
            token = next(decoder, token, pos)?;
        }
        let after = machine.counters();
        Ok(((after.syncs - before.syncs) as f64 / TOKENS as f64, after.allocations))
    })
}

/// Bytes that a step's kernels read of all device memory (each byte once per launch), over those of the weights and
/// of the KV cache that it needs: one layer in the model's own widths, with a small vocabulary, after a prompt of one token.
pub fn bytes_read(name: &str) -> Result<Value> {
    let shape = shape(name)?;
    let vocab = synth::Vocab { size: 1024, ..shape.vocab };
    let shape = synth::Shape { n_layer: 1, vocab, ..*shape };
    let model = load(name, synth::shape_bytes(&shape, mix(MIX), 0)?)?;
    on(Config::checked(), &model, |machine, decoder| {
        let base = decoder.arena().0;
        for part in decoder.parts().iter().filter(|p| p.bytes > 0) {
            machine.fence(base + part.offset, part.bytes, &part.name);
        }
        for pos in 0..2 {
            machine.reset_counters();
            decoder.forward(&[Entry { output: Output::Logits, ..entry(pos, pos) }])?;
        }
        let traffic = machine.counters().traffic;
        let read = |purpose: &str| -> u64 {
            traffic.iter().filter(|(name, _)| name.starts_with(purpose)).map(|(_, bytes)| bytes.read).sum()
        };
        // Two positions of keys and values in f16: the prompt is shorter than any window.
        let needed = decoder.bytes_per_token() + 2 * 2 * 2 * (shape.n_head_kv * shape.head_dim) as u64;
        let over = |bytes: u64| (bytes as f64 / needed as f64 * 1e4).round() / 1e4;
        let cached = read("weights/") + read("kv/");
        Ok(json!({ "all": over(read("")), "weights_and_kv": over(cached), "needed_bytes": needed }))
    })
}
