//! Which page holds which tokens of which sequence, for all sequences of a decoder. Knows no bytes and no device: a
//! decoder asks here before a step where to write, and writes there.
//!
//! A step over some sequences:
//! 1. [`PageTables::reserve`] makes the positions of a chunk writable; the storage copies the pages it names.
//! 2. The chunk runs through the layers. Position `pos` of a sequence lies in slot `pos % 64` of [`PageTables::page`].
//! 3. [`PageTables::advance`] notes what is written; the next chunk of the same step may follow.
//! 4. [`PageTables::commit`] makes the step valid, up to where it is certain ([`PageTables::accept`] says later how much of the
//!    rest is), or [`PageTables::abandon`] takes it back: an abandoned step has lost
//!    nothing of what was there before, as pages behind a sliding window are returned by `commit` alone.

use std::ops::Range;

use super::{
    PAGE,
    kinds::Kind,
    pool::{PageId, PagePool},
    sequence::Sequence,
    tree::PrefixTree,
};
use crate::{ForwardError, PageCount};

/// A page whose content the storage has to copy, in all layers of a kind, before it writes anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCopy {
    /// Kind of layer: full attention or one of the windows.
    pub kind: usize,
    /// The page that stays as it is.
    pub from: PageId,
    /// The one that takes its place in a sequence.
    pub to: PageId,
}

/// Too few pages of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfPages {
    /// Pages that were asked for.
    pub needed: usize,
    /// Pages that are free or held by the prefix cache alone.
    pub free: usize,
}

impl From<OutOfPages> for ForwardError {
    fn from(pages: OutOfPages) -> Self {
        Self::Pages { needed: pages.needed, free: pages.free }
    }
}

/// The page tables of all sequences, the pools that they take from, and the prefix cache.
#[derive(Debug)]
pub struct PageTables {
    pub(super) kinds: Vec<Kind>,
    pub(super) pools: Vec<PagePool>,
    pub(super) tree: PrefixTree,
    pub(super) sequences: Vec<Sequence>,
}

impl PageTables {
    /// `n_seq` empty sequences over pools of `kinds[..].pages` pages.
    pub fn new(kinds: &[Kind], n_seq: usize) -> Self {
        Self {
            kinds: kinds.to_vec(),
            pools: kinds.iter().map(|kind| PagePool::new(kind.pages)).collect(),
            tree: PrefixTree::default(),
            sequences: vec![Sequence::new(kinds.len()); n_seq],
        }
    }

    /// The kinds of layers, as given.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }
    /// The pages of a kind.
    pub fn pool(&self, kind: usize) -> &PagePool {
        &self.pools[kind]
    }
    /// How many sequences there is a table for.
    pub fn n_seq(&self) -> usize {
        self.sequences.len()
    }
    /// Tokens of a sequence, those of chunks that were advanced over included.
    pub fn len(&self, seq: usize) -> usize {
        self.sequences[seq].len
    }
    /// Grows whenever a block of the sequence gets or loses a page: a device that keeps a table of its own then reads
    /// [`PageTables::blocks`] anew.
    pub fn changes(&self, seq: usize) -> u64 {
        self.sequences[seq].changes
    }
    /// The blocks of a sequence that have pages of a kind; at most [`Kind::slots`], those of a window only.
    pub fn blocks(&self, kind: usize, seq: usize) -> Range<usize> {
        let table = &self.sequences[seq].tables[kind];
        table.first..table.end()
    }
    /// The page that holds a block of [`PageTables::blocks`].
    #[inline]
    pub fn page(&self, kind: usize, seq: usize, block: usize) -> PageId {
        let table = &self.sequences[seq].tables[kind];
        table.pages[block - table.first]
    }

    /// Pages of the kind that can run out: the first that keeps everything. Kinds with a window have enough for every
    /// sequence; they are counted where there is no other.
    pub fn counts(&self) -> PageCount {
        let kind = self.kinds.iter().position(|kind| kind.window.is_none()).unwrap_or(0);
        let Some(pool) = self.pools.get(kind) else { return PageCount::default() };
        PageCount { free: pool.free(), evictable: pool.evictable(), total: pool.total() }
    }

    /// Makes the positions from the length of each sequence to `end` writable, all or none; one pair `(seq, end)` per
    /// sequence. Takes pages from the prefix cache where no others are free, and replaces a page that is not the
    /// sequence's alone: the storage has to make the copies that are returned, in their order.
    ///
    /// # Errors
    /// Too few pages; the sequences are as before.
    pub fn reserve(&mut self, wanted: &[(usize, usize)]) -> Result<Vec<PageCopy>, OutOfPages> {
        for kind in 0..self.kinds.len() {
            self.make_room(kind, wanted)?;
        }
        let mut copies = Vec::new();
        for kind in 0..self.kinds.len() {
            for &(seq, end) in wanted {
                if let Some((block, from)) = self.shared_end(kind, seq, end) {
                    let to = self.take(kind).expect("counted");
                    self.pools[kind].let_go(from);
                    let table = &mut self.sequences[seq].tables[kind];
                    table.pages[block - table.first] = to;
                    self.sequences[seq].changes += 1;
                    copies.push(PageCopy { kind, from, to });
                }
                let (missing, fresh) = (self.missing(kind, seq, end), self.fresh(kind, seq, end));
                let mut last = None;
                for i in 0..missing {
                    // Of a block that is passed at once no state is kept: it has its page with the next one.
                    let id = match last {
                        Some(id) if i <= missing - fresh => {
                            self.pools[kind].hold(id);
                            id
                        }
                        _ => self.take(kind).expect("counted"),
                    };
                    last = Some(id);
                    self.sequences[seq].tables[kind].pages.push_back(id);
                    self.sequences[seq].changes += 1;
                }
            }
        }
        Ok(copies)
    }

    /// Checks that a kind has the pages that `reserve` will take.
    fn make_room(&mut self, kind: usize, wanted: &[(usize, usize)]) -> Result<(), OutOfPages> {
        let missing: usize = wanted.iter().map(|&(seq, end)| self.fresh(kind, seq, end)).sum();
        let shared: Vec<PageId> =
            wanted.iter().filter_map(|&(seq, end)| Some(self.shared_end(kind, seq, end)?.1)).collect();
        let (needed, free) = (missing + shared.len(), self.available(kind));
        if needed <= free {
            return Ok(());
        }
        // Without room for a copy the prefix cache gives its share in a page up.
        let pool = &self.pools[kind];
        let two = shared.into_iter().filter(|&id| pool.is_cached(id) && pool.holders(id) == 2);
        let given_up: Vec<PageId> = two.collect();
        if needed - given_up.len() > free {
            return Err(OutOfPages { needed, free });
        }
        given_up.into_iter().for_each(|id| self.tree.remove_holder(kind, id, &mut self.pools));
        Ok(())
    }

    /// Blocks before position `end` that have no page yet.
    fn missing(&self, kind: usize, seq: usize, end: usize) -> usize {
        end.div_ceil(PAGE).saturating_sub(self.sequences[seq].tables[kind].end())
    }

    /// Pages that they take: one each, but for states only of those that are kept behind `end`.
    fn fresh(&self, kind: usize, seq: usize, end: usize) -> usize {
        let missing = self.missing(kind, seq, end);
        let kept = end.div_ceil(PAGE) - self.kinds[kind].first_kept(end);
        if self.kinds[kind].recurrent { missing.min(kept) } else { missing }
    }

    /// The block that a sequence writes next and its page, if others hold that page.
    fn shared_end(&self, kind: usize, seq: usize, end: usize) -> Option<(usize, PageId)> {
        let sequence = &self.sequences[seq];
        let block = sequence.len / PAGE;
        let id = sequence.tables[kind].get(block)?;
        (end > sequence.len && self.pools[kind].holders(id) > 1).then_some((block, id))
    }

    pub(super) fn available(&self, kind: usize) -> usize {
        self.pools[kind].free() + self.pools[kind].evictable()
    }

    /// A page, from the prefix cache if no other is free.
    pub(super) fn take(&mut self, kind: usize) -> Option<PageId> {
        if self.pools[kind].free() == 0 && !self.tree.evict(kind, self.kinds[kind].window.is_some(), &mut self.pools) {
            return None;
        }
        self.pools[kind].take()
    }

    /// Positions up to `len` are written, but the step goes on and may still be abandoned.
    pub fn advance(&mut self, seq: usize, len: usize) {
        self.sequences[seq].advance(len, &self.kinds, &mut self.pools);
    }

    /// Positions up to `len` are valid: ends a step of the sequence. Returns the pages that windows have passed.
    pub fn commit(&mut self, seq: usize, len: usize) {
        self.advance(seq, len);
        self.sequences[seq].commit(&mut self.pools);
    }

    /// Positions up to `len`, which a step wrote as guesses, are valid; pages behind them are not the sequence's any more.
    pub fn accept(&mut self, seq: usize, len: usize) {
        self.commit(seq, len);
        self.sequences[seq].truncate(len, &mut self.pools);
    }

    /// Takes a step back: the sequence holds what it held at the last [`PageTables::commit`].
    pub fn abandon(&mut self, seq: usize) {
        self.sequences[seq].abandon(&mut self.pools);
    }

    /// Forgets positions from `pos` on; returns how many are kept: `pos` (with recurrent layers the beginning of its
    /// block), or 0 where a window has let go of a page that position `pos` would look at.
    pub fn rewind(&mut self, seq: usize, pos: usize) -> usize {
        let pos = self.goes_on_at(seq, pos.min(self.len(seq)));
        let kept = if self.sees_from(seq, pos) { pos } else { 0 };
        self.sequences[seq].truncate(kept, &mut self.pools);
        self.len(seq)
    }

    /// Whether there are recurrent layers.
    pub fn has_states(&self) -> bool {
        self.kinds.iter().any(|kind| kind.recurrent)
    }

    /// The last position up to `pos`, of those that a sequence holds, behind which it can go on: recurrent layers have
    /// states at its end and at the ends of blocks.
    pub(super) fn goes_on_at(&self, seq: usize, pos: usize) -> usize {
        if self.has_states() && pos < self.len(seq) { pos / PAGE * PAGE } else { pos }
    }

    /// Whether a sequence holds the pages that a token at `pos` looks at.
    pub(super) fn sees_from(&self, seq: usize, pos: usize) -> bool {
        let mut tables = self.sequences[seq].tables.iter().zip(&self.kinds);
        tables.all(|(table, kind)| table.first * PAGE <= kind.oldest_seen(pos))
    }

    /// Gives an empty sequence fresh pages of one kind for some blocks: before it is loaded, which a
    /// [`PageTables::commit`] ends.
    ///
    /// # Errors
    /// Too few pages; the sequence is as before.
    pub fn fill(&mut self, kind: usize, seq: usize, blocks: Range<usize>) -> Result<(), OutOfPages> {
        let free = self.available(kind);
        if blocks.len() > free {
            return Err(OutOfPages { needed: blocks.len(), free });
        }
        self.sequences[seq].tables[kind].first = blocks.start;
        for _ in blocks {
            let id = self.take(kind).expect("counted");
            self.sequences[seq].tables[kind].pages.push_back(id);
        }
        self.sequences[seq].changes += 1;
        Ok(())
    }
}
