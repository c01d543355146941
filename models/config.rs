//! The numbers of a model, read from the file and checked, and what each layer does with them.

mod experts;
mod keys;
mod latent;
mod layers;
mod recurrent;
mod rope;

use qrun_quant::{Gguf, Result};

use crate::{
    Options, arch,
    layer::{FeedForwardPlan, LayerPlan, Mixer},
    spec::{Activation, ArchSpec, DraftHead, EmbeddingScale, LogitScale, Norm, Pooling, Recurrent},
};
use keys::{Keys, LIMIT};

/// The numbers of a model. What may differ by layer stands in [`Config::layers`] alone.
#[derive(Debug, Clone)]
pub struct Config {
    /// Row of `ARCHITECTURES` that `general.architecture` names.
    pub arch: &'static ArchSpec,
    /// `general.name`, or the architecture's name.
    pub name: String,
    /// Longest context the model was trained for, in tokens.
    pub n_ctx_train: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Vocabulary size: rows of `token_embd.weight`.
    pub n_vocab: usize,
    /// Epsilon of every norm.
    pub norm_eps: f32,
    /// Epsilon of norms after attention and feed-forward.
    pub post_norm_eps: f32,
    /// Soft-cap of attention scores.
    pub attention_softcap: Option<f32>,
    /// `cap · tanh(logit / cap)` on the logits; `None`: as they are.
    pub logit_softcap: Option<f32>,
    /// Factor on token embeddings.
    pub embedding_scale: f32,
    /// Factor on what joins the residual stream.
    pub residual_scale: f32,
    /// Factor on logits, before the soft-cap.
    pub logit_scale: f32,
    /// Factor on queries by position; `None`: as they are.
    pub q_temperature: Option<QTemperature>,
    /// Elements of an embedding that a token has for each layer; 0: it has none.
    pub n_embd_per_layer: usize,
    /// From hidden states to the embedding of a text; `None`: neither the file nor the architecture says.
    pub pooling: Option<Pooling>,
    /// One plan per layer that runs.
    pub layers: Vec<LayerPlan>,
    /// Blocks of the file behind the layers that predict further tokens (`nextn_predict_layers`). Without
    /// [`Config::draft_head`] they do not run, and their tensors are not looked at.
    pub n_nextn: usize,
    /// The block that guesses further tokens, of a model that was loaded with it.
    pub draft_head: Option<LayerPlan>,
}

/// Queries at position `pos` are multiplied by `1 + scale · ln(⌊pos / original⌋ + 1)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QTemperature {
    /// `attention.temperature_scale`.
    pub scale: f32,
    /// `attention.temperature_length`, or `rope.scaling.original_context_length`: up to there queries are as they are.
    pub original: usize,
}

impl QTemperature {
    /// The factor at a position.
    pub fn at(self, pos: usize) -> f32 {
        1.0 + self.scale * ((pos / self.original + 1) as f32).ln()
    }
}

impl Config {
    /// The largest of a size over all layers: what a buffer that they share has to hold.
    pub fn widest(&self, size: impl Fn(&LayerPlan) -> usize) -> usize {
        self.layers.iter().map(size).max().unwrap_or(0)
    }

    /// Whether texts go through the layers whole, as each token sees all of them: such a model does not write text.
    pub fn is_bidirectional(&self) -> bool {
        self.layers.iter().any(|l| !l.mask.is_causal())
    }

    /// Whether layers let go of what is behind a window, or hold states alone: a sequence goes on only where these were
    /// kept.
    pub fn forgets(&self) -> bool {
        self.layers.iter().any(|l| l.state_len() > 0 || l.kept_window().is_some())
    }

    /// The longest text that the model can take, in tokens; `None`: any, though it was trained for
    /// [`Config::n_ctx_train`].
    pub fn longest(&self) -> Option<usize> {
        self.arch.input.is_placed().then_some(self.n_ctx_train)
    }

    /// The same as a decoder has it on a CPU. Where that drafts with a head, two cached layers follow that are none of the
    /// model's: the hidden state before each token, which is kept as a convolution over two tokens keeps what it looks
    /// back at, and the block of the draft head.
    pub(crate) fn as_cached(&self, o: &Options) -> Self {
        let draft_head = self.draft_head.filter(|_| o.draft_head);
        let hidden = Mixer::ShortConv { taps: 2, channels: self.n_embd };
        let hidden = LayerPlan::without_attention(hidden, FeedForwardPlan::None);
        let of_head = draft_head.into_iter().flat_map(|block| [hidden, block]);
        Self { layers: self.layers.iter().copied().chain(of_head).collect(), draft_head, ..self.clone() }
    }

    /// Reads the plan of the draft head too.
    ///
    /// # Errors
    /// The architecture has none that runs, the file has not just one, or as [`Config::read`] of its block.
    pub fn read_draft_head(&mut self, g: &Gguf) -> Result<()> {
        let spec = self.arch;
        match spec.draft_head {
            DraftHead::HiddenState => {}
            DraftHead::None => {
                let all = arch::ARCHITECTURES.iter().filter(|a| a.draft_head != DraftHead::None).map(|a| a.name);
                let expected =
                    format!("an architecture whose draft head runs ({})", all.collect::<Vec<_>>().join(", "));
                return Err(g.error("key general.architecture", expected, format!("{:?}", spec.name)));
            }
        }
        let keys = Keys { g, arch: spec.name };
        let n_layer = self.layers.len();
        if self.n_nextn != 1 {
            let found = if self.n_nextn == 0 { "no such block".to_owned() } else { self.n_nextn.to_string() };
            return Err(keys.error("nextn_predict_layers", "1 block that guesses further tokens (MTP)", found));
        }
        let blocks = layers::plans(&keys, spec, [self.n_embd, n_layer + 1, n_layer], n_layer..n_layer + 1)?;
        self.draft_head = blocks.into_iter().next();
        Ok(())
    }

    /// Reads and checks everything the forward pass needs to know.
    ///
    /// # Errors
    /// A key or tensor that is missing, out of range, or asks for what is not implemented; the error names it, what was
    /// expected (where layers differ: of which layer) and what was found.
    pub fn read(g: &Gguf) -> Result<Self> {
        let name = g.str("general.architecture")?;
        let known = || arch::ARCHITECTURES.iter().map(|a| a.name).collect::<Vec<_>>().join(", ");
        let missing = || g.error("key general.architecture", format!("one of {}", known()), "nothing");
        let name = name.ok_or_else(missing)?;
        let spec = arch::find(name).ok_or_else(|| {
            g.error("key general.architecture", format!("an architecture qrun runs ({})", known()), format!("{name:?}"))
        })?;
        let keys = Keys { g, arch: spec.name };
        refuse_unimplemented(&keys, spec)?;
        let n_embd = keys.size("embedding_length")?;
        let n_block = keys.size("block_count")?;
        if n_block > 4096 {
            return Err(keys.error("block_count", "at most 4096 layers", n_block));
        }
        let n_nextn = g.u64(&keys.key("nextn_predict_layers"))?.unwrap_or(0);
        let Some(n_layer) = n_block.checked_sub(n_nextn as usize).filter(|&n| n > 0) else {
            return Err(keys.error("nextn_predict_layers", &format!("fewer than the {n_block} blocks"), n_nextn));
        };
        let layers = layers::plans(&keys, spec, [n_embd, n_block, n_layer], 0..n_layer)?;
        let embd = g.tensor("token_embd.weight");
        let embd = embd.ok_or_else(|| g.error("tensor token_embd.weight", "the token embedding", "no such tensor"))?;
        let n_vocab = embd.rows();
        if n_vocab > LIMIT {
            return Err(g.error("tensor token_embd.weight", format!("at most {LIMIT} rows"), n_vocab.to_string()));
        }
        let eps_key = match spec.norm {
            Norm::Rms => "attention.layer_norm_rms_epsilon",
            Norm::Layer | Norm::LayerBias => "attention.layer_norm_epsilon",
        };
        // Files of Nemotron H may have the one under the name of the other.
        let norm_eps = match keys.f32(eps_key)? {
            Some(eps) => eps,
            None => keys.f32("attention.layer_norm_epsilon")?.ok_or_else(|| keys.absent(eps_key))?,
        };
        if norm_eps < 0.0 {
            return Err(keys.error(eps_key, "a number that is not negative", norm_eps));
        }
        let cap = |value: Option<f32>, default: Option<f32>| value.or(default).filter(|&c| c != 0.0);
        Ok(Self {
            arch: spec,
            name: g.str("general.name")?.unwrap_or(spec.name).to_owned(),
            n_ctx_train: keys.size("context_length")?,
            n_embd,
            n_vocab,
            norm_eps,
            post_norm_eps: spec.post_norm_eps.unwrap_or(norm_eps),
            attention_softcap: cap(keys.f32("attn_logit_softcapping")?, spec.softcap.attention),
            logit_softcap: cap(keys.f32("final_logit_softcapping")?, spec.softcap.logits),
            embedding_scale: match spec.embedding_scale {
                EmbeddingScale::One | EmbeddingScale::RmsNorm => 1.0,
                EmbeddingScale::SqrtEmbd => (n_embd as f32).sqrt(),
                EmbeddingScale::Key => keys.positive("embedding_scale")?.unwrap_or(1.0),
            },
            residual_scale: keys.positive("residual_scale")?.unwrap_or(1.0),
            logit_scale: match (spec.logit_scale, keys.positive("logit_scale")?) {
                (LogitScale::None, _) | (_, None) => 1.0,
                (LogitScale::Divide, Some(scale)) => 1.0 / scale,
                (LogitScale::Multiply, Some(scale)) => scale,
            },
            q_temperature: q_temperature(&keys, spec)?,
            n_embd_per_layer: layers::n_embd_per_layer(&keys)?,
            pooling: pooling(&keys, spec)?,
            layers,
            n_nextn: n_block - n_layer,
            draft_head: None,
        })
    }
}

fn q_temperature(keys: &Keys, spec: &ArchSpec) -> Result<Option<QTemperature>> {
    match keys.f32("attention.temperature_scale")?.filter(|&scale| spec.q_temperature && scale != 0.0) {
        None => Ok(None),
        Some(scale) => {
            let original = match keys.optional_size("attention.temperature_length")? {
                Some(length) => length,
                None => keys.size("rope.scaling.original_context_length")?,
            };
            Ok(Some(QTemperature { scale, original }))
        }
    }
}

/// From hidden states to an embedding.
fn pooling(keys: &Keys, spec: &ArchSpec) -> Result<Option<Pooling>> {
    match keys.g.u64(&keys.key("pooling_type"))? {
        None => Ok(spec.pooling),
        Some(n) => {
            let all = [Pooling::None, Pooling::Mean, Pooling::First, Pooling::Last, Pooling::Rank];
            let known = all.into_iter().find(|&pooling| pooling as u64 == n);
            let expected = "0 (none), 1 (mean), 2 (first token), 3 (last token) or 4 (rank)";
            known.map(Some).ok_or_else(|| keys.error("pooling_type", expected, n))
        }
    }
}

/// What would change the result and is not implemented is an error, never an approximation.
fn refuse_unimplemented(keys: &Keys, spec: &ArchSpec) -> Result<()> {
    let str = |name: &str| keys.g.str(&keys.key(name));
    let known = ["none", "linear", "yarn", "longrope"];
    if let Some(kind) = str("rope.scaling.type")?.filter(|kind| !known.contains(kind)) {
        return Err(keys.error("rope.scaling.type", "none, linear, yarn or longrope", format!("{kind:?}")));
    }
    let activation = match spec.feed_forward.activation() {
        Activation::Silu | Activation::ClampedSwiglu => ["silu", "swish"].as_slice(),
        Activation::GeluTanh => &["gelu_pytorch_tanh", "gelu_tanh"],
        Activation::Gelu => &["gelu"],
        Activation::ReluSquared => &["relu2"],
    };
    for name in ["hidden_act", "hidden_activation"] {
        if let Some(found) = str(name)?.filter(|found| !activation.contains(found)) {
            return Err(keys.error(name, activation[0], format!("{found:?}")));
        }
    }
    let recurrent = match spec.recurrent {
        Recurrent::None => false,
        Recurrent::DeltaNet { .. } | Recurrent::ShortConv | Recurrent::Mamba2 => true,
    };
    if recurrent && !layers::mask(keys, spec)?.is_causal() {
        return Err(keys.error("attention.causal", "true, as recurrent layers look back only", "false"));
    }
    Ok(())
}
