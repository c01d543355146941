//! Input vectors of matrix products, prepared once and used by every matrix that reads them.

use super::Arithmetic;

/// `tokens` vectors of `cols` elements.
pub struct Activations {
    pub(super) arithmetic: Arithmetic,
    pub(super) tokens: usize,
    pub(super) cols: usize,
    pub(super) f32: Vec<f32>,
}

impl Activations {
    /// An empty set of vectors; memory is taken when vectors are set.
    pub fn new(arithmetic: Arithmetic) -> Self {
        Self { arithmetic, tokens: 0, cols: 0, f32: Vec::new() }
    }

    /// Takes `tokens` vectors `x[tokens][cols]`.
    pub fn set(&mut self, x: &[f32], cols: usize) {
        assert!(cols > 0 && x.len().is_multiple_of(cols));
        (self.tokens, self.cols) = (x.len() / cols, cols);
        self.f32.clear();
        self.f32.extend_from_slice(x);
    }

    /// Number of vectors.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
}
