//! What layers with latent attention need between their kernels.

use qrun_cuda::{
    ArenaLayout, Ptr,
    ops::{activations::QuantizedActivations, experts::AllHeads},
};

use super::operand::Operand;
use crate::{
    Config, LayerPlan,
    layer::{KvSource, LatentPlan},
};

/// What layers with latent attention need besides; null where there are none.
#[derive(Clone, Copy)]
pub struct Latent {
    /// What queries are made of where it is not the stream, `[rows][q_rank]`.
    pub low: Operand,
    /// Queries as projected, `[rows][n_head][n_nope + n_rot]`.
    pub queries: Ptr<f32>,
    /// Of these the elements that do not turn, `[rows][n_head][n_nope]`.
    pub front: QuantizedActivations,
    /// Values, `[rows][n_head][n_value]`.
    pub values: Operand,
    /// Columns of the products by head.
    pub heads: AllHeads,
}

impl Latent {
    /// With room for as many rows.
    pub fn take(layout: &mut ArenaLayout, c: &Config, rows: usize) -> Self {
        let widest = |of: fn(&LayerPlan, &LatentPlan) -> usize| {
            c.widest(|l| if let KvSource::Latent(plan) = &l.kv { of(l, plan) } else { 0 })
        };
        let values = |layout: &mut ArenaLayout, name: &str, width: usize| {
            layout.take(format!("activations/latent.{name}"), rows * width)
        };
        let front = widest(|l, p| l.n_head * p.n_nope);
        Self {
            low: Operand::take(layout, "latent.low", [rows, widest(|_, p| p.q_rank.unwrap_or(0))]),
            queries: values(layout, "queries", widest(|l, p| l.n_head * (p.n_nope + l.rope.n_rot))),
            front: QuantizedActivations::take(layout, "activations/latent.front", rows, front),
            values: Operand::take(layout, "latent.values", [rows, widest(|l, p| l.n_head * p.n_value)]),
            heads: AllHeads::take(layout, "activations/latent.heads", [rows, widest(|l, _| l.n_head)]),
        }
    }
}
