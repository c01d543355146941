//! How to run a model.

use qrun_quant::cpu::{Arithmetic, Matrix};

use crate::KvType;

/// What a decoder gives for a token that wants an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gives {
    /// Logits, `[n_vocab]`.
    #[default]
    Logits,
    /// The hidden state that the head would take, `[n_embd]`: what embeddings of texts are made of. No head is loaded.
    Hidden,
}

/// How to run a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Most tokens of a sequence: the context size.
    pub n_ctx: usize,
    /// Sequences that can be held at once.
    pub n_seq: usize,
    /// Tokens that the KV cache has room for, of all sequences and the prefix cache together; 0: `n_seq · n_ctx`. One
    /// sequence of `n_ctx` tokens always fits. Counts for layers that see everything; those with a sliding window have
    /// enough for every sequence.
    pub n_kv: usize,
    /// Tokens that go through the layers together in a prefill.
    pub n_ubatch: usize,
    /// CPU threads; the result does not depend on them.
    pub threads: usize,
    /// Exact (f32) or fast (int8) arithmetic.
    pub arithmetic: Arithmetic,
    /// Type of cached keys.
    pub type_k: KvType,
    /// Type of cached values.
    pub type_v: KvType,
    /// Most tokens of a sequence that a step takes as guesses; states of recurrent layers are kept behind each of them. At
    /// most 63; a GPU takes none.
    pub n_draft: usize,
    /// Whether a model that was loaded with its draft head (MTP) guesses with it.
    pub draft_head: bool,
    /// Keep the pages of sliding layers for good.
    pub swa_full: bool,
    /// What comes out.
    pub gives: Gives,
    /// Repack weights for faster arithmetic; without it they stay lazily mapped.
    pub repack: bool,
    /// Not at load, but what gains from it by the products that need it: the first token is there sooner, the same.
    pub repack_as_needed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            n_ctx: 4096,
            n_seq: 1,
            n_kv: 0,
            n_ubatch: 512,
            threads: qrun_quant::cpu::physical_cores(),
            arithmetic: Arithmetic::Fast,
            type_k: KvType::F16,
            type_v: KvType::F16,
            n_draft: 0,
            draft_head: false,
            swa_full: false,
            gives: Gives::Logits,
            repack: true,
            repack_as_needed: false,
        }
    }
}

impl Options {
    /// The oracle: f32 everywhere, weights as they lie in the file.
    pub fn exact() -> Self {
        Self {
            arithmetic: Arithmetic::Exact,
            type_k: KvType::F32,
            type_v: KvType::F32,
            repack: false,
            ..Self::default()
        }
    }

    /// Whether a CPU repacks these weights: at load all that have tiles, as needed what gains from them.
    pub fn repacks(&self, w: &Matrix) -> bool {
        let wanted = if self.repack_as_needed { w.gains_from_tiles() } else { w.has_tiles() };
        self.repack && self.arithmetic == Arithmetic::Fast && wanted
    }
}
