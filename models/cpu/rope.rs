//! Rotary position embeddings: one table of cosines and sines per kind of layer, turned to the
//! positions of each chunk.

use crate::{Entry, Model, layer::Rope, spec::RopeLayout};

/// Tables for the one or two kinds of RoPE of a model.
pub struct Tables {
    kinds: Vec<Table>,
    /// Index into `kinds` per layer.
    of_layer: Vec<usize>,
}

/// Cosine and sine of each pair, `[tokens][n_rot / 2]`.
#[derive(Default)]
pub struct Table {
    rope: Option<Rope>,
    /// Angle per position of each pair.
    frequencies: Vec<f64>,
    cos_sin: Vec<(f32, f32)>,
}

impl Tables {
    /// Empty tables for the kinds of RoPE that the layers have, in sessions of `n_ctx` tokens.
    pub fn new(model: &Model, n_ctx: usize) -> Self {
        let c = &model.config;
        let mut kinds: Vec<Table> = Vec::new();
        let of_layer = c.layers.iter().map(|l| {
            let known = kinds.iter().position(|k| k.rope == Some(l.rope));
            known.unwrap_or_else(|| {
                let frequencies = l.rope.frequencies(model.weights.rope_factors.of(&l.rope, n_ctx));
                kinds.push(Table { rope: Some(l.rope), frequencies, cos_sin: Vec::new() });
                kinds.len() - 1
            })
        });
        let of_layer = of_layer.collect();
        Self { kinds, of_layer }
    }

    /// Computes all tables for the positions of a chunk.
    pub fn set_positions(&mut self, chunk: &[Entry]) {
        for kind in &mut self.kinds {
            kind.cos_sin.clear();
            let magnitude = kind.rope.map_or(1.0, |rope| rope.magnitude);
            for e in chunk {
                kind.cos_sin.extend(kind.frequencies.iter().map(|f| {
                    let (sin, cos) = (f64::from(e.pos) * f).sin_cos();
                    (cos as f32 * magnitude, sin as f32 * magnitude)
                }));
            }
        }
    }

    /// The table of a layer.
    pub fn of(&self, il: usize) -> &Table {
        &self.kinds[self.of_layer[il]]
    }
}

/// Turns `n_rot` elements of every head of `x[tokens][heads][head_dim]`, from element `first` on.
pub fn apply(x: &mut [f32], [head_dim, first]: [usize; 2], layout: RopeLayout, table: &Table) {
    let half = table.frequencies.len();
    if half == 0 {
        return;
    }
    let tokens = table.cos_sin.len() / half;
    let width = x.len() / tokens;
    for (x, cs) in x.chunks_exact_mut(width).zip(table.cos_sin.chunks_exact(half)) {
        for head in x.chunks_exact_mut(head_dim).map(|head| &mut head[first..]) {
            match layout {
                RopeLayout::Interleaved => {
                    for (pair, &(cos, sin)) in head.chunks_exact_mut(2).zip(cs) {
                        (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos);
                    }
                }
                RopeLayout::Halves => {
                    let (front, back) = head[..2 * half].split_at_mut(half);
                    for ((a, b), &(cos, sin)) in front.iter_mut().zip(back).zip(cs) {
                        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                    }
                }
            }
        }
    }
}
