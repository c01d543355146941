//! The KV cache: pages of 64 tokens, counted by who holds them, for the CPU and the GPU.
//!
//! [`PageTables`] keeps the books: which page holds which tokens of which sequence, what the prefix cache remembers
//! ([`tree`]), which pages are free ([`pool`]). It is the same for every device. Storage is apart: [`KvCache`] is the
//! CPU's, the GPU's lies with its decoder. Layers with the same reach form a [`Kind`] and share page numbers; what a
//! page holds of a layer is that layer's own [`Shape`].
//!
//! On the CPU and in files a page of a layer holds its keys dimension-major (`[head][dim][token]`), so that the scores of
//! a page are one small matrix product with tokens along the vector lanes, then its values token-major
//! (`[head][token][dim]`), so that the weighted sum is the same product. A page of latent attention has keys alone.

mod cpu;
mod drafted;
mod element;
#[cfg(test)]
mod histories;
pub mod kinds;
pub mod pool;
mod prefix;
mod sequence;
pub(crate) mod snapshot;
pub mod tables;
pub mod tree;

pub use cpu::KvCache;
pub use drafted::MOST_DRAFTED;
pub use element::KvType;
pub use kinds::{Kind, kinds};
pub use pool::{PageId, PagePool};
pub use tables::{OutOfPages, PageCopy, PageTables};

use crate::{LayerPlan, Options, layer::KvSource};

/// Tokens per page.
pub const PAGE: usize = 64;

/// What a page holds of one layer: 64 tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Element type of the cached keys.
    pub type_k: KvType,
    /// Element type of the cached values; `None`: they are the front of the keys, and there are no others.
    pub type_v: Option<KvType>,
    /// Elements of the state of a recurrent layer, f32; it has no keys and values.
    pub state_len: usize,
}

impl Shape {
    /// The pages of a layer; without heads where it attends to the cache of another one.
    pub fn new(l: &LayerPlan, o: &Options) -> Self {
        Self {
            n_head_kv: if l.kv.is_own() { l.n_head_kv } else { 0 },
            head_dim: l.head_dim,
            type_k: o.type_k,
            type_v: if matches!(l.kv, KvSource::Latent(_)) { None } else { Some(o.type_v) },
            state_len: l.state_len(),
        }
    }

    /// Bytes of one page of the layer.
    pub fn page_bytes(&self) -> usize {
        let keys_and_values = self.type_k.page_bytes(self.head_dim) + self.value_bytes();
        self.n_head_kv * keys_and_values + size_of::<f32>() * self.state_len
    }
    /// Bytes of one head's page of values.
    fn value_bytes(&self) -> usize {
        self.type_v.map_or(0, |ty| ty.page_bytes(self.head_dim))
    }
    fn key_range(&self, head: usize) -> std::ops::Range<usize> {
        let n = self.type_k.page_bytes(self.head_dim);
        head * n..(head + 1) * n
    }
    fn value_range(&self, head: usize) -> std::ops::Range<usize> {
        let keys = self.n_head_kv * self.type_k.page_bytes(self.head_dim);
        let n = self.value_bytes();
        keys + head * n..keys + (head + 1) * n
    }
}
