//! The decoder on a device against the exact one on the CPU, and against itself: on emulated GPUs, or with
//! `QRUN_GPU=1` on a real one.

mod arrivals;
mod checked;
mod demo;
mod draft_head;
mod embeddings;
mod failing;
mod guesses;
mod invariants;
mod joining;
mod masks;
mod memory;
mod pages;
mod recovering;
mod right;
mod sampling;
mod taps;

use std::ops::{Deref, DerefMut};

use qrun::sampler::SamplerParams;
use qrun_cuda::ops::sample::SampledToken;
use qrun_emulator::{Config, Machine};
use qrun_models::{Entry, Forward, ForwardError, GpuDecoder, Model, Options, Output, Row, SamplingRequest};

use crate::{
    card::{self, Place},
    tiny::{EACH_ARCH, Mix, Tiny, UNEVEN, entries},
};

/// A decoder on a GPU of its own.
pub struct Device {
    // Dropped in this order: what is first still calls the driver.
    decoder: GpuDecoder,
    place: Place,
}

impl Device {
    /// On an emulated GPU, or the card.
    pub fn new(model: &Model, options: &Options, config: Config) -> Self {
        let place = Place::new(config);
        let decoder = GpuDecoder::new(&card::gpu(), model, options).expect("a decoder");
        // Inside the one allocation, each part has bounds of its own.
        if let Some(machine) = &place.machine {
            let (base, _) = decoder.arena();
            decoder.parts().iter().for_each(|p| machine.fence(base + p.offset, p.bytes, &p.name));
        }
        Self { decoder, place }
    }

    /// The emulated machine; none where this is the card.
    pub fn machine(&self) -> Option<&Machine> {
        self.place.machine.as_ref()
    }

    /// Logits of all tokens, `[tokens][n_vocab]`.
    pub fn logits(&mut self, tokens: &[u32], start: usize, seq: u32) -> Vec<f32> {
        self.decoder.forward(&entries(tokens, start, seq)).unwrap_or_else(|e| panic!("{e}")).to_vec()
    }

    /// Feeds one token of sequence 0; the token that the device samples after it.
    pub fn next(&mut self, token: u32, pos: u32) -> Result<SampledToken, ForwardError> {
        let entry = Entry { token, pos, seq: 0, output: Output::Token, drafted: false };
        match self.decoder.step(&[entry][..].into())?.iter().next() {
            Some(Row::Token(sampled)) => Ok(sampled),
            other => panic!("a sampled token, not {other:?}"),
        }
    }
}

impl Deref for Device {
    type Target = GpuDecoder;
    fn deref(&self) -> &GpuDecoder {
        &self.decoder
    }
}

impl DerefMut for Device {
    fn deref_mut(&mut self) -> &mut GpuDecoder {
        &mut self.decoder
    }
}

/// For up to 256 tokens in each of four sequences.
pub fn options() -> Options {
    Options { n_ctx: 256, n_seq: 4, threads: 2, ..Options::default() }
}

/// Architectures that differ in what the device does, and layers that differ.
pub fn models() -> impl Iterator<Item = Tiny> {
    // Of those behind the first ones all but these are the same launches with other names of tensors: `right` has them.
    let others =
        named(&["qwen35", "lfm2", "nemotron_h", "qwen3moe", "qwen35moe", "olmo2", "cohere2", "deepseek2", "gemma4"]);
    // A Gemma 4 and a DeepSeek with experts differ from those without in these alone: `right` and `taps` have them.
    let others = others.filter(|tiny| !["gemma4", "deepseek2"].contains(&tiny.arch) || tiny.experts[0] == 0);
    EACH_ARCH.into_iter().take(6).chain(others).chain(UNEVEN).map(in_k_quants)
}

/// Of these one of each kind of what a sequence keeps: pages, also of windows, states, keys that are values too, caches that layers
/// share, layers that differ.
pub fn caches() -> impl Iterator<Item = Tiny> {
    models()
        .filter(|tiny| ["llama", "gemma3", "qwen35", "lfm2", "nemotron_h", "deepseek2", "gemma4"].contains(&tiny.arch))
}

/// Some of the architectures.
pub fn named(arches: &'static [&str]) -> impl Iterator<Item = Tiny> {
    EACH_ARCH.into_iter().filter(|t| arches.contains(&t.arch))
}

/// In a mix of formats, with an embedding of 256 elements: K-quants among them.
pub fn in_k_quants(t: Tiny) -> Tiny {
    Tiny { mix: Mix::Q4_K_M, n_embd: 256, n_ff: 96, n_vocab: 61, ..t }
}

/// Whether there are recurrent layers.
pub fn has_states(tiny: &Tiny) -> bool {
    (0..tiny.n_layer).any(|il| !tiny.attends(il))
}

/// Where a sequence of `len` tokens goes on that is told to go back to `pos`: recurrent layers have a state at the end and
/// at the ends of blocks, and windows may have passed what is seen from there.
pub fn kept(tiny: &Tiny, len: usize, pos: usize) -> Vec<usize> {
    match tiny.window {
        _ if has_states(tiny) && pos < len => vec![pos / 64 * 64, 0],
        0 => vec![pos],
        _ => vec![pos, 0],
    }
}

/// What the device is told to sample by these parameters after these tokens.
pub fn request(params: &SamplerParams, history: &[u32]) -> SamplingRequest {
    let sampling = params.on_device(history.len() as u64).expect("no typical sampling");
    SamplingRequest { sampling, bias: params.logit_bias.clone(), history: history.to_vec(), masked: false }
}

/// Parameters of the likeliest token.
pub fn greedy() -> SamplerParams {
    SamplerParams { temperature: 0.0, ..SamplerParams::default() }
}

/// An emulated GPU of this compute capability.
pub fn sm(sm: u32) -> Config {
    Config { sm, ..Config::default() }
}

/// `|found − expected| / |expected|` in the L2 norm; infinite where anything is not finite.
pub fn distance(found: &[f32], expected: &[f32]) -> f64 {
    if found.len() != expected.len() || found.is_empty() || found.iter().any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    let error: f64 = found.iter().zip(expected).map(|(f, e)| f64::from(f - e).powi(2)).sum();
    let size: f64 = expected.iter().map(|e| f64::from(*e).powi(2)).sum();
    if error == 0.0 { 0.0 } else { (error / size).sqrt() }
}

/// Largest relative L2 distance of quantized results from exact ones. What int8 activations cost adds up over the layers
/// as noise does: it shows in the deep ones of the models whose branches join the residual stream as they are or in threes, and
/// where a rotary embedding, or norms over all heads, make scores larger. The CPU's fast arithmetic is as far away.
pub fn int8_bound(tiny: &Tiny) -> f64 {
    match tiny.arch {
        "smollm3" => 2e-2 * (tiny.n_layer as f64 / 2.0).sqrt(),
        "gemma4" if tiny.n_embd_per_layer > 0 => 2e-2 * (tiny.n_layer as f64 / 2.0).sqrt(),
        "qwen35" | "lfm2" | "granitehybrid" | "nemotron_h" if tiny.experts[0] == 0 => {
            3e-2 * (tiny.n_layer as f64 / 2.0).sqrt()
        }
        "gemma4" if tiny.head_dim == 512 => 3e-2,
        "phi3" => 2.5e-2,
        "olmo2" => 2.7e-2,
        // Where two experts are nearly as good, noise takes the other one; where they are in groups, a whole other group.
        "nemotron_h_moe" => 1.3e-1,
        _ if tiny.experts[0] > 0 => 1e-1,
        // One coarse format in every matrix.
        _ if matches!(tiny.mix, Mix::Only(_)) => 2.5e-2,
        _ => 2e-2,
    }
}

/// The same of two fast passes over the same numbers: on a device and on the CPU.
pub fn fast_bound(tiny: &Tiny) -> f64 {
    if tiny.n_embd_per_layer > 0 { int8_bound(tiny) } else { 2e-2 }
}

#[track_caller]
pub fn assert_near(found: &[f32], expected: &[f32], bound: f64, what: std::fmt::Arguments) {
    let distance = distance(found, expected);
    assert!(distance <= bound, "{what}: relative L2 distance {distance:.2e}, at most {bound:.1e} allowed");
}
