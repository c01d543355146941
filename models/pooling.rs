//! From the hidden states of a text to its embedding.

use qrun_quant::cpu::{Activations, Arithmetic, Job, matmul};

use crate::{spec::Pooling, weights::Weights};

/// What comes of a text's hidden states, which are added in the order of its tokens.
pub enum Pool {
    /// Their sum, `[n_embd]`, and how many they are.
    Mean(Vec<f64>, usize),
    /// Those that are wanted, one behind the other.
    Rows(Vec<f32>),
}

impl Pool {
    /// Before the first one, of `n_embd` elements. [`Pooling::Rank`] keeps rows, as nothing here makes a score of them.
    pub fn new(pooling: Pooling, n_embd: usize) -> Self {
        match pooling {
            Pooling::Mean => Self::Mean(vec![0.0; n_embd], 0),
            Pooling::None | Pooling::First | Pooling::Last | Pooling::Rank => Self::Rows(Vec::new()),
        }
    }

    /// Takes the hidden state of a token that [`wants`] named.
    pub fn add(&mut self, hidden: &[f32]) {
        match self {
            Self::Mean(sum, n) => {
                sum.iter_mut().zip(hidden).for_each(|(sum, &x)| *sum += f64::from(x));
                *n += 1;
            }
            Self::Rows(rows) => rows.extend_from_slice(hidden),
        }
    }

    /// `[n_embd]`; of [`Pooling::None`] `[tokens][n_embd]`.
    pub fn finish(self) -> Vec<f32> {
        match self {
            Self::Mean(sum, n) => sum.into_iter().map(|sum| (sum / n.max(1) as f64) as f32).collect(),
            Self::Rows(rows) => rows,
        }
    }
}

/// Whether the hidden state of token `pos` of a text of `len` is needed.
pub fn wants(pooling: Pooling, pos: usize, len: usize) -> bool {
    match pooling {
        Pooling::None | Pooling::Mean => true,
        Pooling::First | Pooling::Rank => pos == 0,
        Pooling::Last => pos + 1 == len,
    }
}

/// Elements of an embedding: those of a hidden state, or what the last of [`Weights::dense`] gives.
pub fn width(weights: &Weights) -> usize {
    weights.dense.last().map_or(weights.token_embd.cols(), |last| last.w.rows())
}

/// Sends embeddings `[rows][n_embd]` through [`Weights::dense`]; returns `[rows][`[`width`]`]`.
pub fn dense(weights: &Weights, arithmetic: Arithmetic, mut x: Vec<f32>) -> Vec<f32> {
    for linear in &weights.dense {
        let mut y = vec![0.0; x.len() / linear.w.cols() * linear.w.rows()];
        matmul(&mut Activations::new(arithmetic), &x, &mut [Job { w: &linear.w, y: &mut y }]);
        if let Some(bias) = &linear.bias {
            y.chunks_exact_mut(bias.len()).for_each(|row| row.iter_mut().zip(bias).for_each(|(y, b)| *y += b));
        }
        x = y;
    }
    x
}
