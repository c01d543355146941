//! The forward pass against itself: what must not change a bit does not, what must be refused is.

mod cache;
mod drafts;
mod equivalence;
pub mod latent;
mod layers;
mod prefix;
mod refusals;
mod states;

use qrun_models::{KvType, Options};
use qrun_quant::cpu::Arithmetic;

use crate::tiny::{EACH_ARCH, Mix, Tiny, UNEVEN};

/// Architectures that differ from relatives among the others in numbers and norms that no test below is about.
const ALIKE: [&str; 16] = [
    "qwen2moe",
    "qwen3moe",
    "qwen3vl",
    "qwen3vlmoe",
    "mistral3",
    "phi3",
    "glm4",
    "seed_oss",
    "exaone4",
    "granite",
    "granitemoe",
    "muse-glimmer",
    "qwen35",
    "qwen3next",
    "lfm2moe",
    "mistral4",
];

/// Every architecture, and layers that differ, in formats for which exact and fast arithmetic differ.
fn all_models() -> impl Iterator<Item = Tiny> {
    // An embedding of 256 elements: K-quants in attention, Q5_0 and Q8_0 in `ffn_down`.
    EACH_ARCH.into_iter().chain(UNEVEN).map(|t| Tiny { mix: Mix::Q4_K_M, n_embd: 256, n_ff: 96, n_vocab: 61, ..t })
}

/// One of each kind.
fn models() -> impl Iterator<Item = Tiny> {
    all_models().filter(|tiny| !ALIKE.contains(&tiny.arch))
}

/// Exact and fast, for up to 256 tokens in each of four sequences.
fn options() -> [Options; 2] {
    let common = Options { n_ctx: 256, n_seq: 4, threads: 2, ..Options::default() };
    let exact =
        Options { arithmetic: Arithmetic::Exact, type_k: KvType::F32, type_v: KvType::F32, repack: false, ..common };
    [exact, common]
}

/// One of each kind with both arithmetics.
fn runs() -> impl Iterator<Item = (Tiny, Options)> {
    models().flat_map(|t| options().map(|o| (t, o)))
}

/// Those whose sequences can go on anywhere: without recurrent layers.
fn runs_without_states() -> impl Iterator<Item = (Tiny, Options)> {
    runs().filter(|(tiny, _)| (0..tiny.n_layer).all(|il| tiny.attends(il)))
}

/// Fails unless both are the same bits and finite.
#[track_caller]
fn assert_same(a: &[f32], b: &[f32], what: std::fmt::Arguments) {
    assert_eq!(a.len(), b.len(), "{what}");
    assert!(a.iter().all(|x| x.is_finite()), "{what}: not finite");
    let differ = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    assert_eq!(differ, 0, "{what}: {differ} of {} logits differ", a.len());
}
