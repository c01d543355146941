//! What layers with experts need between their kernels.

use qrun_cuda::{ArenaLayout, Ptr, Result, Stream, ops::experts::Choices};

use super::operand::Operand;
use crate::{Config, layer::ExpertPlan};

/// What layers with experts need besides; null where there are none.
#[derive(Clone, Copy)]
pub struct Experts {
    /// Logits of the router, `[rows][n_expert]`.
    pub logits: Ptr<f32>,
    /// How much of the shared expert passes, `[rows]`.
    pub shared_gate: Ptr<f32>,
    pub choices: Choices,
    /// Of the blocks that make a row's logits; 0 between steps.
    pub ticket: Ptr<u32>,
    /// What each choice gives, `[rows][n_used][n_embd]`.
    pub given: Ptr<f32>,
    /// What experts take and give together that see less than the stream.
    pub latent: Operand,
    /// What the shared expert gives, or the feed-forward beside experts, `[rows][n_embd]`.
    pub shared: Ptr<f32>,
}

impl Experts {
    /// With room for as many rows.
    pub fn take(layout: &mut ArenaLayout, c: &Config, rows: usize) -> Self {
        let widest = |of: fn(&ExpertPlan) -> usize| c.widest(|l| l.experts().map_or(0, of));
        let (n_expert, n_used) = (widest(|e| e.n_expert), widest(|e| e.n_used));
        let shared = widest(|e| usize::from(e.shared.is_some() || e.beside.is_some()));
        let latent = widest(|e| e.latent.unwrap_or(0));
        let latent_operand = Operand::take(layout, "experts.latent", [rows, latent]);
        let ticket = layout.take("activations/experts.ticket", n_expert.min(1));
        let mut values = |name: &str, width: usize| layout.take(format!("activations/experts.{name}"), rows * width);
        Self {
            ticket,
            latent: latent_operand,
            logits: values("logits", n_expert),
            shared_gate: values("shared_gate", widest(|e| usize::from(e.shared.is_some()))),
            given: values("given", n_used * c.n_embd.max(latent)),
            shared: values("shared", shared * c.n_embd),
            choices: Choices::take(layout, "activations/experts", [rows, n_expert, n_used]),
        }
    }

    /// Sets the ticket to zero; every step leaves it so.
    ///
    /// # Errors
    /// An earlier launch has failed.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        if self.ticket.is_null() {
            return Ok(());
        }
        // SAFETY: a part of the arena, of one element (see `decoder`).
        unsafe { stream.zero(self.ticket, 1) }
    }
}
