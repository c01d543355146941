//! What lies between the kernels.

use qrun_cuda::{
    ArenaLayout, Ptr,
    ops::{activations::ActivationTerms, attention::Scratch},
};

use super::{experts::Experts, given, latent::Latent, n_draft, operand::Operand, output_rows, rows, step_rows};
use crate::{Config, LayerPlan, Options, layer::Mixer, spec::AttentionGate};

/// Buffers between the kernels, `[rows][width]`, with room for the widest layer. Rows lie one behind the other in the
/// width of the layer at hand.
pub struct Activations {
    /// The residual stream, `[rows][n_embd]`.
    pub x: Ptr<f32>,
    /// Where the stream of one row is after every other part of a layer, `[n_embd]`: of these some blocks still read `x`.
    pub x_next: Ptr<f32>,
    /// The normed stream: input of q, k, v, gate, up and head.
    pub normed: Operand,
    /// What the query projection gives: `q`, or apart from it where each head is followed by its gate.
    pub queries: Ptr<f32>,
    /// Gates of what heads give, `[rows][q_dim]`, where they have a matrix of their own.
    pub attention_gate: Ptr<f32>,
    pub q: Ptr<f32>,
    pub k: Ptr<f32>,
    pub v: Ptr<f32>,
    /// What projections give recurrent layers.
    pub recurrent: Recurrent,
    /// Output of the heads, or of a recurrent layer before its last projection.
    pub attended: Operand,
    /// Where attention joins the parts of what a row sees.
    pub parts: Scratch,
    /// Gate and up where they are not multiplied at once (many rows), `[rows][n_ff]`.
    pub gate: Ptr<f32>,
    pub up: Ptr<f32>,
    /// `act(gate) · up`: input of the down projection.
    pub gated: Operand,
    /// Room for the terms of an operand, `[rows][widest]`; none where no dense matrix has 16 bits.
    pub terms: ActivationTerms,
    /// Of layers with experts.
    pub experts: Experts,
    /// Of layers with latent attention.
    pub latent: Latent,
    /// Embeddings of a token for each layer, `[rows][layers][n_embd_per_layer]`: first the token's own, then joined with what
    /// its embedding gives; null where there are none.
    pub per_layer: Ptr<f32>,
    /// What the embedding gives, the same.
    pub per_layer_projected: Ptr<f32>,
    /// Outputs of attention and feed-forward before they join the stream.
    pub out: Ptr<f32>,
    /// `[step_rows]` of what rows give ([`given`]), or `[output_rows]`.
    pub logits: Ptr<f32>,
}

/// Inputs of recurrent layers, `[rows][width]` each; null where there are no such layers.
#[derive(Clone, Copy)]
pub struct Recurrent {
    /// What a convolution takes.
    pub input: Ptr<f32>,
    /// Gate of what a delta net gives; what heads of Mamba-2 give, before its norm.
    pub z: Ptr<f32>,
    /// Of the factor on the state; with `beta` behind it where one matrix gives both.
    pub alpha: Ptr<f32>,
    pub beta: Ptr<f32>,
}

impl Recurrent {
    pub const NONE: Self = Self { input: Ptr::NULL, z: Ptr::NULL, alpha: Ptr::NULL, beta: Ptr::NULL };

    /// Those of one layer for a step with guesses; none where nothing guesses, or the layer keeps no state.
    pub fn guessed(layout: &mut ArenaLayout, (il, l): (usize, &LayerPlan), o: &Options) -> Self {
        let n = if n_draft(o) > 0 && l.state_len() > 0 { step_rows(o) } else { 0 };
        let mut values =
            |name: &str, width: usize| layout.take(format!("activations/guessed.blk.{il}.{name}"), n * width);
        let [_, input, heads] = widths(l);
        Self {
            input: values("input", input),
            z: Ptr::NULL,
            alpha: values("alpha", 2 * heads),
            beta: values("beta", heads),
        }
    }
}

/// Elements of a row that its mixer gives, takes in, and heads that have factors of their own.
fn widths(l: &LayerPlan) -> [usize; 3] {
    match l.mixer {
        Mixer::Attention | Mixer::None => [l.q_dim(), 0, 0],
        Mixer::DeltaNet(d) => [d.inner(), d.channels(), d.n_head_v],
        Mixer::ShortConv { channels, .. } => [channels, 3 * channels, 0],
        Mixer::Mamba2(m) => [m.inner(), m.projected(), 0],
    }
}

/// Takes them, with room for the widest layer; `widest_terms`: columns of the widest matrix that takes terms.
pub fn activations(layout: &mut ArenaLayout, c: &Config, o: &Options, widest_terms: usize) -> Activations {
    let n = rows(o);
    let values =
        |layout: &mut ArenaLayout, name: &str, width: usize| layout.take(format!("activations/{name}"), n * width);
    let operand = |layout: &mut ArenaLayout, name: &str, width: usize| Operand::take(layout, name, [n, width]);
    let (q, kv, n_ff) = (c.widest(LayerPlan::q_dim), c.widest(LayerPlan::kv_dim), c.widest(gated_width));
    let (in_query, own_gate) = match c.arch.attention_gate {
        AttentionGate::None => (false, false),
        AttentionGate::InQuery => (true, false),
        AttentionGate::Own => (false, true),
    };
    let queries = in_query.then(|| values(layout, "queries", 2 * q));
    let gates = own_gate.then(|| values(layout, "attention_gate", q));
    let has_heads = c.layers.iter().any(|l| matches!(l.mixer, Mixer::DeltaNet(_) | Mixer::Mamba2(_)));
    let [out, input, heads] = [0, 1, 2].map(|i| c.widest(|l| widths(l)[i]));
    let at = values(layout, "q", q);
    Activations {
        x: values(layout, "x", c.n_embd),
        x_next: layout.take("activations/x_next", c.n_embd),
        normed: operand(layout, "normed", c.n_embd),
        queries: queries.unwrap_or(at),
        attention_gate: gates.unwrap_or(Ptr::NULL),
        q: at,
        k: values(layout, "k", kv),
        v: values(layout, "v", kv),
        recurrent: Recurrent {
            input: values(layout, "recurrent.input", input),
            z: values(layout, "recurrent.z", if has_heads { out } else { 0 }),
            alpha: values(layout, "recurrent.alpha", 2 * heads),
            beta: values(layout, "recurrent.beta", heads),
        },
        attended: operand(layout, "attended", out),
        parts: Scratch::take(layout, [step_rows(o), c.widest(|l| l.n_head), q], o.n_ctx),
        gate: values(layout, "gate", n_ff),
        up: values(layout, "up", n_ff),
        gated: operand(layout, "gated", n_ff),
        terms: ActivationTerms::take(layout, "activations/terms", n, widest_terms),
        experts: Experts::take(layout, c, n),
        latent: Latent::take(layout, c, n),
        per_layer: values(layout, "per_layer", c.n_embd_per_layer * c.layers.len()),
        per_layer_projected: values(layout, "per_layer_projected", c.n_embd_per_layer * c.layers.len()),
        out: values(layout, "out", c.n_embd),
        logits: layout.take("activations/logits", step_rows(o).max(output_rows(o)) * given(c, o)),
    }
}

/// Elements that a row's gate and up have, those of all its experts.
fn gated_width(l: &LayerPlan) -> usize {
    l.n_ff().max(l.experts().map_or(0, |e| e.n_used * e.n_ff)).max(l.n_embd_per_layer)
}
