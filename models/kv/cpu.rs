//! The CPU's keys and values: one allocation per page and kind, for all layers of the kind.

use std::ops::Range;

use super::{PAGE, PageCopy, PageId, PageTables, Shape, kinds};
use crate::{Config, Entry, ForwardError, LayerPlan, Options, Salt, forward::ends};

/// Keys and values of all sequences and layers, and the book-keeping over them.
pub struct KvCache {
    pub(super) layers: Vec<Place>,
    pub(super) tables: PageTables,
    /// By kind: bytes of a page of all its layers.
    page_bytes: Vec<usize>,
    /// `[kind][page id]`: the pages of all layers of the kind, one after the other. Made when an id first comes up.
    pages: Vec<Vec<Box<[u8]>>>,
}

/// Where a layer's pages lie: in those of its kind, from byte `start`.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub kind: usize,
    pub shape: Shape,
    start: usize,
}

impl Place {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.shape.page_bytes()
    }
}

impl KvCache {
    /// An empty cache; memory is taken as sequences grow and reused afterwards.
    pub fn new(c: &Config, o: &Options) -> Self {
        let (kinds, of_layers) = kinds(c, o, o.n_ubatch);
        let mut page_bytes = vec![0; kinds.len()];
        let place = |(l, kind): (&LayerPlan, usize)| {
            let place = Place { kind, shape: Shape::new(l, o), start: page_bytes[kind] };
            page_bytes[kind] += place.shape.page_bytes();
            place
        };
        let layers = c.layers.iter().zip(of_layers).map(place).collect();
        Self { layers, tables: PageTables::new(&kinds, o.n_seq), page_bytes, pages: vec![Vec::new(); kinds.len()] }
    }

    /// Which page holds what.
    pub fn tables(&self) -> &PageTables {
        &self.tables
    }
    /// Bytes of the pages in use, by sequences or the prefix cache.
    pub fn bytes(&self) -> usize {
        self.bytes_of(|kind| self.tables.pool(kind).total() - self.tables.pool(kind).free())
    }
    /// Bytes of all pages ever taken: the peak.
    pub fn peak_bytes(&self) -> usize {
        self.bytes_of(|kind| self.pages[kind].len())
    }
    fn bytes_of(&self, pages: impl Fn(usize) -> usize) -> usize {
        self.page_bytes.iter().enumerate().map(|(kind, bytes)| pages(kind) * bytes).sum()
    }

    /// Makes room for some entries that will go through the layers together.
    ///
    /// # Errors
    /// No pages left; the sequences are as before.
    pub fn reserve(&mut self, chunk: &[Entry]) -> Result<(), ForwardError> {
        let copies = self.tables.reserve(&ends(chunk))?;
        self.copy(&copies);
        Ok(())
    }
    /// Notes that a chunk is stored, in all layers.
    pub fn advance(&mut self, chunk: &[Entry]) {
        ends(chunk).into_iter().for_each(|(seq, end)| self.tables.advance(seq, end));
    }
    /// Ends a step whose chunks are all stored.
    pub fn commit(&mut self, batch: &[Entry]) {
        ends(batch).into_iter().for_each(|(seq, end)| self.tables.commit(seq, end));
    }
    /// Takes a step back.
    pub fn abandon(&mut self, batch: &[Entry]) {
        ends(batch).into_iter().for_each(|(seq, _)| self.tables.abandon(seq));
    }

    /// See [`PageTables::attach`].
    pub fn attach(&mut self, seq: usize, tokens: &[u32]) -> usize {
        let (n, copies) = self.tables.attach(seq, tokens);
        self.copy(&copies);
        n
    }
    /// See [`PageTables::fork`].
    pub fn fork(&mut self, from: usize, to: usize, len: usize) -> usize {
        self.tables.fork(from, to, len)
    }
    /// See [`PageTables::rewind`].
    pub fn rewind(&mut self, seq: usize, pos: usize) -> usize {
        self.tables.rewind(seq, pos)
    }
    /// See [`PageTables::share`].
    pub fn share(&mut self, seq: usize, tokens: &[u32]) {
        self.tables.share(seq, tokens);
    }
    /// See [`PageTables::release`].
    pub fn release(&mut self, seq: usize, tokens: &[u32]) {
        self.tables.release(seq, tokens);
    }
    /// See [`PageTables::forget`].
    pub fn forget(&mut self, keep: &[u32]) {
        self.tables.forget(keep);
    }
    /// See [`PageTables::erase`].
    pub fn erase(&mut self, salt: &Salt, tokens: &[u32]) {
        self.tables.erase(salt, tokens);
    }
    /// See [`PageTables::set_salt`].
    pub fn set_salt(&mut self, seq: usize, salt: &Salt) {
        self.tables.set_salt(seq, salt);
    }

    /// Takes memory for the pages that were handed out for the first time, and copies pages.
    fn copy(&mut self, copies: &[PageCopy]) {
        self.grow();
        for copy in copies {
            let pages = &mut self.pages[copy.kind];
            let from = std::mem::take(&mut pages[copy.from as usize]);
            pages[copy.to as usize].copy_from_slice(&from);
            pages[copy.from as usize] = from;
        }
    }

    pub(super) fn grow(&mut self) {
        for (kind, (pages, &bytes)) in self.pages.iter_mut().zip(&self.page_bytes).enumerate() {
            let page = || vec![0; bytes].into();
            pages.resize_with(self.tables.pool(kind).ever_used().max(pages.len()), page);
        }
    }

    /// Stores key and value (`[n_head_kv][head_dim]` each) of a reserved position in a layer.
    pub fn store(&mut self, seq: usize, il: usize, pos: usize, (k, v): (&[f32], &[f32])) {
        let Place { kind, shape: s, .. } = self.layers[il];
        let (id, slot, n) = (self.tables.page(kind, seq, pos / PAGE), pos % PAGE, s.head_dim);
        let page = self.page_mut(il, id);
        for head in 0..s.n_head_kv {
            let range = head * n..(head + 1) * n;
            s.type_k.store_key(&mut page[s.key_range(head)], slot, &k[range.clone()]);
            s.type_v.store_value(&mut page[s.value_range(head)], slot, &v[range]);
        }
    }

    /// Keys of one head of block number `block`, `[head_dim][PAGE]`.
    pub fn keys(&self, seq: usize, il: usize, (block, head): (usize, usize), out: &mut [f32]) {
        let shape = self.layers[il].shape;
        shape.type_k.load_keys(&self.block(seq, il, block)[shape.key_range(head)], out);
    }

    /// Values of one head of block number `block`, `[PAGE][head_dim]`.
    pub fn values(&self, seq: usize, il: usize, (block, head): (usize, usize), out: &mut [f32]) {
        let shape = self.layers[il].shape;
        shape.type_v.load_values(&self.block(seq, il, block)[shape.value_range(head)], out);
    }

    fn block(&self, seq: usize, il: usize, block: usize) -> &[u8] {
        self.page(il, self.tables.page(self.layers[il].kind, seq, block))
    }

    /// A page of a layer.
    pub(super) fn page(&self, il: usize, id: PageId) -> &[u8] {
        let place = self.layers[il];
        &self.pages[place.kind][id as usize][place.range()]
    }

    pub(super) fn page_mut(&mut self, il: usize, id: PageId) -> &mut [u8] {
        let place = self.layers[il];
        &mut self.pages[place.kind][id as usize][place.range()]
    }
}
