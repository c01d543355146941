//! The draft head on the device: its weights, what it takes in a step, and its own steps.

use qrun_cuda::{
    Ptr,
    ops::sample::{SampleBuffers, SampleShape},
};

use super::{Loader, NormWeight, Operand, Rows, STEP_ROWS, Weight, rows, step_rows};
use crate::{Config, Options, weights};

/// Weights of a draft head but for its block, which is the last one of the layers; and what lies between its kernels.
pub struct DraftHead {
    /// Norms of embeddings and of hidden states, `[2][n_embd]`.
    pub norms: Ptr<f32>,
    /// From both to what the block takes.
    pub eh_proj: Weight,
    /// Before the head.
    pub norm: NormWeight,
    pub token_embd: Weight,
    pub output: Weight,
    /// Embeddings of the rows, and what the block takes, `[rows][n_embd]`.
    pub x: Ptr<f32>,
    /// The rows' hidden states, as the model's head takes them, `[rows][n_embd]`.
    pub hidden: Ptr<f32>,
    /// Embeddings and hidden states before them, `[rows][2 · n_embd]`.
    pub joined: Operand,
    /// The head's own hidden states in its last step, `[step_rows][n_embd]`.
    pub own_hidden: Ptr<f32>,
    /// Rows of its steps, `[STEP_ROWS]`.
    pub rows: Rows,
    pub sampling: SampleBuffers,
}

/// What the device needs to choose guesses: always the likeliest token.
pub fn draft_shape(c: &Config, o: &Options) -> SampleShape {
    SampleShape { sequences: o.n_seq, vocab: c.n_vocab, history: 0, biases: 0 }
}

impl DraftHead {
    /// Takes them. `model`: the table of embeddings, the norm before the head, and the head, where it has none of its own.
    pub(super) fn take(
        t: &mut Loader,
        (c, o): (&Config, &Options),
        w: &weights::DraftHead,
        model: (Weight, NormWeight, Weight),
    ) -> Self {
        let (n, n_embd) = (rows(o), c.n_embd);
        let (token_embd, norm, output) = model;
        let mut values = |name: &str, len: usize| t.layout.take(format!("activations/draft_head.{name}"), len);
        let (x, hidden) = (values("x", n * n_embd), values("hidden", n * n_embd));
        let own_hidden = values("own_hidden", step_rows(o) * n_embd);
        let of_norm = |weight| NormWeight { weight, bias: Ptr::NULL };
        Self {
            x,
            hidden,
            joined: Operand::take(t.layout, "draft_head.joined", [n, 2 * n_embd]),
            own_hidden,
            rows: Rows::at(t.layout.take("state/draft_head.rows".to_owned(), 3 * STEP_ROWS), STEP_ROWS),
            sampling: draft_shape(c, o).take(t.layout),
            norms: t.vector("weights/draft_head.norms".into(), &[&w.e_norm[..], &w.h_norm].concat()),
            eh_proj: t.linear("draft_head.eh_proj", &w.eh_proj),
            norm: w.norm.as_ref().map_or(norm, |own| of_norm(t.vector("weights/draft_head.norm".into(), own))),
            token_embd: w.token_embd.as_ref().map_or(token_embd, |own| t.matrix("draft_head.embed_tokens", own)),
            output: w.output.as_ref().map_or(output, |own| t.linear("draft_head.output", own)),
        }
    }
}
