//! What joins the embeddings of tokens.

use super::{Planned, Shape, bias, others::TOKEN_TYPES, vector};

impl Shape {
    /// The tensors of that.
    pub(super) fn input(&self) -> impl Iterator<Item = Planned> {
        let (d, input) = (self.n_embd, self.spec().input);
        let types = input.is_typed().then(|| self.matrix("token_types", d, TOKEN_TYPES));
        let norm = input.is_normed().then(|| vector("token_embd_norm.weight".into(), d));
        let has_bias = input.is_normed() && self.spec().norm.has_bias();
        let norm_bias = has_bias.then(|| bias("token_embd_norm.bias".into(), vec![d as u64]));
        let positions = input.is_placed().then(|| self.matrix("position_embd", d, self.n_ctx));
        types.into_iter().chain(norm).chain(norm_bias).chain(positions)
    }
}
