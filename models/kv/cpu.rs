//! The CPU's keys, values and states: one allocation per page and kind, for all layers of the kind.

use std::{
    borrow::Cow,
    io::{self, Read},
    ops::Range,
};

use super::{PAGE, PageCopy, PageId, PageTables, Shape, drafted::Drafted, kinds};
use crate::{
    Config, Entry, ForwardError, LayerPlan, Options, Salt,
    cpu::Elements,
    forward::{certain_ends, ends},
};

/// Keys and values of all sequences and layers, and the book-keeping over them.
pub struct KvCache {
    pub(super) layers: Vec<Place>,
    pub(super) tables: PageTables,
    /// By kind: bytes of a page of all its layers.
    page_bytes: Vec<usize>,
    /// `[kind][page id]`: the pages of all layers of the kind, one after the other. Made when an id first comes up.
    pages: Vec<Vec<Page>>,
    /// What the step under way may have to take back of recurrent layers, by sequence.
    before: Vec<Before>,
    /// What steps have guessed, by sequence.
    drafted: Vec<Drafted>,
}

/// A sequence, a layer, the number of a block of [`PAGE`] positions, and a key/value head.
pub type HeadBlock = (usize, usize, usize, usize);

/// A page of a kind of layer.
enum Page {
    /// Keys and values.
    Cache(Box<[u8]>),
    /// States of recurrent layers.
    States(Box<[f32]>),
}

impl Page {
    fn copy_from(&mut self, from: &Self) {
        match (self, from) {
            (Self::Cache(to), Self::Cache(from)) => to.copy_from_slice(from),
            (Self::States(to), Self::States(from)) => to.copy_from_slice(from),
            _ => unreachable!("pages of one kind"),
        }
    }
}

/// The states of a sequence before the step that it is in, where that may be taken back: they change in place.
#[derive(Default)]
struct Before {
    in_step: bool,
    /// Tokens that they are after, if they lie in a block that the step writes.
    len: Option<usize>,
    /// `[kind][layers of the kind]`, of recurrent kinds.
    states: Vec<Vec<f32>>,
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
        let tables = PageTables::new(&kinds, o.n_seq);
        let pages = kinds.iter().map(|_| Vec::new()).collect();
        let before = (0..o.n_seq).map(|_| Before::default()).collect();
        let drafted = (0..o.n_seq).map(|_| Drafted::default()).collect();
        Self { layers, tables, page_bytes, pages, before, drafted }
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
        let ends = ends(chunk);
        let copies = self.tables.reserve(&ends)?;
        self.copy(&copies);
        Ok(())
    }
    /// Makes room behind the end of a sequence for what does not join it; `false` where no pages are left.
    pub fn reserve_beyond(&mut self, seq: usize, n: usize) -> bool {
        self.drafted[seq].note(0..0);
        let copies = self.tables.reserve(&[(seq, self.tables.len(seq) + n)]);
        copies.map(|copies| self.copy(&copies)).is_ok()
    }
    /// Notes which entries of a step are guesses.
    pub fn note_drafted(&mut self, batch: &[Entry]) {
        for (seq, end) in ends(batch) {
            let first = batch.iter().find(|e| e.drafted && e.seq as usize == seq);
            self.drafted[seq].note(first.map_or(end, |e| e.pos as usize)..end);
        }
    }
    /// Notes that a chunk is stored, in all layers.
    pub fn advance(&mut self, chunk: &[Entry]) {
        certain_ends(chunk).into_iter().for_each(|(seq, end)| self.tables.advance(seq, end));
    }
    /// Ends a step whose chunks are all stored.
    pub fn commit(&mut self, batch: &[Entry]) {
        for (seq, end) in certain_ends(batch) {
            self.tables.commit(seq, end);
            self.before[seq].in_step = false;
        }
    }
    /// See [`crate::Forward::accept`].
    pub fn accept(&mut self, seq: usize, n: usize) {
        let accepted = self.drafted[seq].accept(n);
        if accepted.start != self.tables.len(seq) {
            return;
        }
        for (pos, kind, states) in self.drafted[seq].states(accepted.clone()) {
            let id = self.tables.page(kind, seq, pos / PAGE) as usize;
            if let Page::States(held) = &mut self.pages[kind][id] {
                std::mem::swap(held, states);
            }
        }
        self.tables.accept(seq, accepted.end);
    }
    /// Takes a step back.
    pub fn abandon(&mut self, batch: &[Entry]) {
        for (seq, _) in ends(batch) {
            self.tables.abandon(seq);
            self.drafted[seq].note(0..0);
            self.bring_states_back(seq);
        }
    }

    /// Keeps the states that a step is about to change in place, for a step that may be taken back: those inside of a block.
    pub fn keep_states(&mut self, chunk: &[Entry]) {
        if self.tables.has_states() {
            ends(chunk).into_iter().for_each(|(seq, _)| self.keep_states_of(seq));
        }
    }

    fn keep_states_of(&mut self, seq: usize) {
        let (before, len) = (&mut self.before[seq], self.tables.len(seq));
        if std::mem::replace(&mut before.in_step, true) {
            return;
        }
        before.len = (!len.is_multiple_of(PAGE)).then_some(len);
        before.states.resize(self.pages.len(), Vec::new());
        for (kind, (pages, kept)) in self.pages.iter().zip(&mut before.states).enumerate() {
            if before.len.is_some() && self.tables.kinds()[kind].recurrent {
                let Page::States(states) = &pages[self.tables.page(kind, seq, len / PAGE) as usize] else { continue };
                kept.clear();
                kept.extend_from_slice(states);
            }
        }
    }

    fn bring_states_back(&mut self, seq: usize) {
        let before = &mut self.before[seq];
        if !std::mem::take(&mut before.in_step) || before.len != Some(self.tables.len(seq)) {
            return;
        }
        for (kind, (pages, kept)) in self.pages.iter_mut().zip(&before.states).enumerate() {
            if self.tables.kinds()[kind].recurrent {
                let page = self.tables.page(kind, seq, self.tables.len(seq) / PAGE);
                let Page::States(states) = &mut pages[page as usize] else { continue };
                states.copy_from_slice(kept);
            }
        }
    }

    /// See [`PageTables::attach`].
    pub fn attach(&mut self, seq: usize, tokens: &[u32]) -> usize {
        let (n, copies) = self.tables.attach(seq, tokens);
        self.copy(&copies);
        n
    }
    /// See [`PageTables::fork`].
    pub fn fork(&mut self, from: usize, to: usize, len: usize) -> usize {
        // What they are taken into may be the other one's too.
        self.drafted[from].note(0..0);
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
            let (from, to) = (copy.from as usize, copy.to as usize);
            if let Ok([from, to]) = pages.get_disjoint_mut([from, to]) {
                to.copy_from(from);
            }
        }
    }

    pub(super) fn grow(&mut self) {
        for (kind, (pages, &bytes)) in self.pages.iter_mut().zip(&self.page_bytes).enumerate() {
            let recurrent = self.tables.kinds()[kind].recurrent;
            let page = || match recurrent {
                true => Page::States(vec![0.0; bytes / size_of::<f32>()].into()),
                false => Page::Cache(vec![0; bytes].into()),
            };
            pages.resize_with(self.tables.pool(kind).ever_used().max(pages.len()), page);
        }
    }

    /// Stores key and value (`[n_head_kv][head_dim]` each) of a reserved position in a layer. Where values are the front of
    /// keys none are looked at.
    pub fn store(&mut self, seq: usize, il: usize, pos: usize, (k, v): (&[f32], &[f32])) {
        let Place { kind, shape: s, .. } = self.layers[il];
        let (id, slot, n) = (self.tables.page(kind, seq, pos / PAGE), pos % PAGE, s.head_dim);
        let page = self.page_mut(il, id);
        for head in 0..s.n_head_kv {
            let range = head * n..(head + 1) * n;
            s.type_k.store_key(&mut page[s.key_range(head)], slot, &k[range.clone()]);
            if let Some(type_v) = s.type_v {
                type_v.store_value(&mut page[s.value_range(head)], slot, &v[range]);
            }
        }
    }

    /// Keys of one head of a block, `[head_dim][PAGE]`: as they are stored where that is asked for and they are floats, or in `out`.
    pub fn keys<'a>(&'a self, at: HeadBlock, as_stored: bool, out: &'a mut [f32]) -> Elements<'a> {
        self.layers[at.1].shape.type_k.keys(self.key_bytes(at), as_stored, out)
    }

    /// The same of values, `[PAGE][head_dim]`. Panics where they are the front of the keys.
    pub fn values<'a>(&'a self, at: HeadBlock, as_stored: bool, out: &'a mut [f32]) -> Elements<'a> {
        let Some(type_v) = self.layers[at.1].shape.type_v else { unreachable!("values that are the front of keys") };
        type_v.values(self.value_bytes(at), as_stored, out)
    }

    /// What [`KvCache::keys`] reads.
    pub fn key_bytes(&self, (seq, il, block, head): HeadBlock) -> &[u8] {
        &self.block(seq, il, block)[self.layers[il].shape.key_range(head)]
    }

    /// What [`KvCache::values`] reads.
    pub fn value_bytes(&self, (seq, il, block, head): HeadBlock) -> &[u8] {
        &self.block(seq, il, block)[self.layers[il].shape.value_range(head)]
    }

    fn block(&self, seq: usize, il: usize, block: usize) -> &[u8] {
        self.page(il, self.tables.page(self.layers[il].kind, seq, block))
    }

    /// The state of a recurrent layer before a reserved position, to be changed into the one after it and after those
    /// that follow in its block; where it is a guess into the one after it alone.
    pub fn state(&mut self, seq: usize, il: usize, pos: usize) -> &mut [f32] {
        let Place { kind, shape, start } = self.layers[il];
        let (block, start) = (pos / PAGE, start / size_of::<f32>());
        let range = start..start + shape.state_len;
        if self.drafted[seq].contains(pos) {
            let page = self.tables.page(kind, seq, self.drafted[seq].last_certain() / PAGE) as usize;
            let Page::States(held) = &self.pages[kind][page] else { unreachable!("a layer without a state") };
            return self.drafted[seq].state(pos, [kind, self.pages.len()], held, range);
        }
        let to = self.tables.page(kind, seq, block) as usize;
        if pos.is_multiple_of(PAGE) {
            let from = pos.checked_sub(1).map(|last| self.tables.page(kind, seq, last / PAGE) as usize);
            if from == Some(to) {
                return &mut self.states_mut(kind, to)[range];
            }
            match from.map(|from| self.pages[kind].get_disjoint_mut([from, to])) {
                Some(Ok([Page::States(from), Page::States(to)])) => {
                    to[range.clone()].copy_from_slice(&from[range.clone()]);
                }
                _ => self.states_mut(kind, to)[range.clone()].fill(0.0),
            }
        }
        &mut self.states_mut(kind, to)[range]
    }

    fn states_mut(&mut self, kind: usize, id: usize) -> &mut [f32] {
        match &mut self.pages[kind][id] {
            Page::States(states) => states,
            Page::Cache(_) => unreachable!("a layer without a state"),
        }
    }

    /// A page of a layer.
    fn page(&self, il: usize, id: PageId) -> &[u8] {
        let place = self.layers[il];
        match &self.pages[place.kind][id as usize] {
            Page::Cache(page) => &page[place.range()],
            Page::States(_) => unreachable!("a recurrent layer has no keys and values"),
        }
    }

    fn page_mut(&mut self, il: usize, id: PageId) -> &mut [u8] {
        let place = self.layers[il];
        match &mut self.pages[place.kind][id as usize] {
            Page::Cache(page) => &mut page[place.range()],
            Page::States(_) => unreachable!("a recurrent layer has no keys and values"),
        }
    }

    /// What a layer has in a page, little endian.
    pub(super) fn page_content(&self, il: usize, id: PageId) -> Cow<'_, [u8]> {
        let place = self.layers[il];
        match &self.pages[place.kind][id as usize] {
            Page::Cache(page) => page[place.range()].into(),
            Page::States(states) => {
                let states = &states[place.start / size_of::<f32>()..][..place.shape.state_len];
                states.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into()
            }
        }
    }

    /// Reads what [`KvCache::page_content`] gave.
    ///
    /// # Errors
    /// `input` ends early or cannot be read.
    pub(super) fn read_page(&mut self, il: usize, id: PageId, input: &mut dyn Read) -> io::Result<()> {
        let place = self.layers[il];
        match &mut self.pages[place.kind][id as usize] {
            Page::Cache(page) => input.read_exact(&mut page[place.range()]),
            Page::States(states) => {
                let states = &mut states[place.start / size_of::<f32>()..][..place.shape.state_len];
                states.iter_mut().try_for_each(|x| {
                    let mut bytes = [0; size_of::<f32>()];
                    input.read_exact(&mut bytes)?;
                    *x = f32::from_le_bytes(bytes);
                    Ok(())
                })
            }
        }
    }
}
