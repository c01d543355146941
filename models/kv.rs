//! The KV cache: pages of 64 tokens, a page table per sequence and layer, pages beyond a sliding
//! window returned as soon as the layer has used them.
//!
//! A page holds the keys and values of one layer. Keys lie dimension-major (`[head][dim][token]`), so
//! that the scores of a page are one small matrix product with tokens along the vector lanes; values
//! lie token-major (`[head][token][dim]`), so that the weighted sum is the same product.

mod element;
#[cfg(test)]
mod histories;
pub mod kinds;
pub mod pool;
mod prefix;
pub(crate) mod snapshot;
pub mod tables;
pub mod tree;

use std::collections::VecDeque;

pub use element::KvType;
pub use kinds::{Kind, kinds};
pub use pool::{PageId, PagePool};
pub use tables::{OutOfPages, PageCopy, PageTables};

use crate::{Config, Options};

/// Tokens per page.
pub const PAGE: usize = 64;

/// Keys and values of all sequences and layers.
pub struct KvCache {
    shape: Shape,
    /// Sliding window per layer; `None`: pages are kept for good.
    windows: Vec<Option<usize>>,
    pages: Vec<Box<[u8]>>,
    free: Vec<usize>,
    sequences: Vec<Sequence>,
}

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Type of keys.
    pub type_k: KvType,
    /// Type of values.
    pub type_v: KvType,
}

#[derive(Clone, Default)]
struct Sequence {
    len: usize,
    layers: Vec<Table>,
}

/// Pages of one layer of one sequence: page `first + i` of the sequence is `pages[i]`.
#[derive(Clone, Default)]
struct Table {
    first: usize,
    pages: VecDeque<usize>,
}

impl Shape {
    /// Bytes of one page: 64 tokens of one layer.
    pub fn page_bytes(&self) -> usize {
        self.n_head_kv * (self.type_k.page_bytes(self.head_dim) + self.type_v.page_bytes(self.head_dim))
    }
    fn key_range(&self, head: usize) -> std::ops::Range<usize> {
        let n = self.type_k.page_bytes(self.head_dim);
        head * n..(head + 1) * n
    }
    fn value_range(&self, head: usize) -> std::ops::Range<usize> {
        let keys = self.n_head_kv * self.type_k.page_bytes(self.head_dim);
        let n = self.type_v.page_bytes(self.head_dim);
        keys + head * n..keys + (head + 1) * n
    }
}

/// Pages that a layer with this window can hold at once, for sequences of `n_ctx` tokens.
pub fn pages_per_layer(window: Option<usize>, n_ctx: usize) -> usize {
    let all = n_ctx.div_ceil(PAGE);
    // A window that starts anywhere in a page touches one page more than its size has.
    window.map_or(all, |w| all.min((w - 1).div_ceil(PAGE) + 1))
}

impl KvCache {
    /// An empty cache; pages are allocated as sequences grow and reused afterwards.
    pub fn new(c: &Config, o: &Options) -> Self {
        let shape = Shape { n_head_kv: c.n_head_kv, head_dim: c.head_dim, type_k: o.type_k, type_v: o.type_v };
        let windows: Vec<_> = c.layers.iter().map(|l| l.window.filter(|_| !o.swa_full)).collect();
        let sequence = Sequence { len: 0, layers: vec![Table::default(); windows.len()] };
        Self { shape, windows, pages: Vec::new(), free: Vec::new(), sequences: vec![sequence; o.n_seq] }
    }

    /// Number of sequences.
    pub fn n_seq(&self) -> usize {
        self.sequences.len()
    }
    /// Tokens in a sequence.
    pub fn len(&self, seq: usize) -> usize {
        self.sequences[seq].len
    }
    /// Bytes of the pages in use.
    pub fn bytes(&self) -> usize {
        (self.pages.len() - self.free.len()) * self.shape.page_bytes()
    }
    /// Bytes of all pages ever taken: the peak.
    pub fn peak_bytes(&self) -> usize {
        self.pages.len() * self.shape.page_bytes()
    }

    /// Stores key and value (`[n_head_kv][head_dim]` each) of position `pos` in a layer.
    pub fn append(&mut self, seq: usize, il: usize, pos: usize, (k, v): (&[f32], &[f32])) {
        let table = &self.sequences[seq].layers[il];
        let index = pos / PAGE - table.first;
        assert!(index <= table.pages.len(), "positions are appended in order");
        if index == table.pages.len() {
            let page = self.take_page();
            self.sequences[seq].layers[il].pages.push_back(page);
        }
        let page = self.sequences[seq].layers[il].pages[index];
        let (s, slot, n) = (self.shape, pos % PAGE, self.shape.head_dim);
        for head in 0..s.n_head_kv {
            let range = head * n..(head + 1) * n;
            s.type_k.store_key(&mut self.pages[page][s.key_range(head)], slot, &k[range.clone()]);
            s.type_v.store_value(&mut self.pages[page][s.value_range(head)], slot, &v[range]);
        }
    }

    fn take_page(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.pages.push(vec![0; self.shape.page_bytes()].into());
            self.pages.len() - 1
        })
    }

    /// Keys of one head of page number `page`, `[head_dim][PAGE]`.
    pub fn keys(&self, seq: usize, il: usize, (page, head): (usize, usize), out: &mut [f32]) {
        self.shape.type_k.load_keys(&self.page(seq, il, page)[self.shape.key_range(head)], out);
    }

    /// Values of one head of page number `page`, `[PAGE][head_dim]`.
    pub fn values(&self, seq: usize, il: usize, (page, head): (usize, usize), out: &mut [f32]) {
        self.shape.type_v.load_values(&self.page(seq, il, page)[self.shape.value_range(head)], out);
    }

    fn page(&self, seq: usize, il: usize, page: usize) -> &[u8] {
        let table = &self.sequences[seq].layers[il];
        &self.pages[table.pages[page - table.first]]
    }

    /// Returns pages of a sliding layer that no position from `next` on will look at.
    pub fn release(&mut self, seq: usize, il: usize, next: usize) {
        let Some(window) = self.windows[il] else { return };
        let oldest = (next + 1).saturating_sub(window);
        let table = &mut self.sequences[seq].layers[il];
        while (table.first + 1) * PAGE <= oldest
            && let Some(page) = table.pages.pop_front()
        {
            self.free.push(page);
            table.first += 1;
        }
    }

    /// Notes that a sequence now has `len` tokens in every layer.
    pub fn set_len(&mut self, seq: usize, len: usize) {
        self.sequences[seq].len = len;
    }

    /// Forgets positions from `pos` on; returns how many are kept: `pos` or 0 (see `Forward::rewind`).
    pub fn rewind(&mut self, seq: usize, pos: usize) -> usize {
        let pos = pos.min(self.len(seq));
        let windows = &self.windows;
        let sequence = &mut self.sequences[seq];
        let whole = sequence.layers.iter().zip(windows).all(|(table, window)| {
            let oldest = window.map_or(0, |w| (pos + 1).saturating_sub(w));
            table.first * PAGE <= oldest
        });
        let kept = if whole { pos } else { 0 };
        for table in &mut sequence.layers {
            let keep = kept.div_ceil(PAGE).saturating_sub(table.first);
            if kept == 0 {
                table.first = 0;
            }
            self.free.extend(table.pages.drain(keep.min(table.pages.len())..));
        }
        sequence.len = kept;
        kept
    }
}
