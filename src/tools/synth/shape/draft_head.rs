//! The block behind the layers that guesses further tokens.

use super::{Planned, Shape, vector};

impl Shape {
    /// Its tensors: a layer's, and what joins a token and the hidden state before it.
    pub(super) fn draft_head(&self) -> Vec<Planned> {
        if !self.draft_head {
            return Vec::new();
        }
        let (il, n) = (self.n_layer, self.n_embd);
        let mut tensors = self.layer(il);
        tensors.push(self.matrix(&format!("blk.{il}.nextn.eh_proj"), 2 * n, n));
        let norms = ["enorm", "hnorm", "shared_head_norm"];
        tensors.extend(norms.map(|part| vector(format!("blk.{il}.nextn.{part}.weight"), n)));
        tensors
    }
}
