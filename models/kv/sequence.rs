//! The pages of one sequence, and the step that it is in.

use std::collections::VecDeque;

use super::{
    PAGE,
    kinds::Kind,
    pool::{PageId, PagePool},
};
use crate::Salt;

/// A sequence: its length and a table per kind of layer.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    /// Tokens, those that the step under way has written included.
    pub len: usize,
    /// Its length before that step.
    start: usize,
    pub tables: Vec<Table>,
    /// Grows whenever a block gets or loses a page.
    pub changes: u64,
    /// Of what it finds in the prefix cache and leaves there.
    pub salt: Salt,
}

/// Pages of one kind: block `first + i` is `pages[i]`.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub first: usize,
    pub pages: VecDeque<PageId>,
    /// Pages from before the step that the window has passed, in case the step is abandoned.
    passed: Vec<PageId>,
}

impl Table {
    /// The block behind the last page.
    pub fn end(&self) -> usize {
        self.first + self.pages.len()
    }
    /// The page of a block, if it is held.
    pub fn get(&self, block: usize) -> Option<PageId> {
        self.pages.get(block.checked_sub(self.first)?).copied()
    }
}

impl Sequence {
    pub fn new(kinds: usize) -> Self {
        Self { len: 0, start: 0, tables: vec![Table::default(); kinds], changes: 0, salt: None }
    }

    /// Positions up to `len` are written. Of the pages that windows have passed, those written in this step are free,
    /// the others wait for its end.
    pub fn advance(&mut self, len: usize, kinds: &[Kind], pools: &mut [PagePool]) {
        self.len = len;
        let before = self.start.div_ceil(PAGE);
        for ((table, kind), pool) in self.tables.iter_mut().zip(kinds).zip(pools) {
            while table.first < kind.first_kept(len)
                && let Some(id) = table.pages.pop_front()
            {
                if table.first < before {
                    table.passed.push(id);
                } else {
                    pool.let_go(id);
                }
                table.first += 1;
                self.changes += 1;
            }
        }
    }

    /// Ends the step: the sequence is as long as the step made it, and pages that left the window go back to the pool.
    pub fn commit(&mut self, pools: &mut [PagePool]) {
        self.start = self.len;
        for (table, pool) in self.tables.iter_mut().zip(pools) {
            table.passed.drain(..).for_each(|id| pool.let_go(id));
        }
    }

    /// Takes the step back.
    pub fn abandon(&mut self, pools: &mut [PagePool]) {
        let before = self.start.div_ceil(PAGE);
        for (table, pool) in self.tables.iter_mut().zip(&mut *pools) {
            if table.first > before {
                // All that is left was written by the step.
                table.pages.drain(..).for_each(|id| pool.let_go(id));
                table.first = before;
            }
            while let Some(id) = table.passed.pop() {
                table.pages.push_front(id);
                table.first -= 1;
            }
        }
        self.truncate(self.start, pools);
    }

    /// Returns the pages behind position `len`, where the next step begins.
    pub fn truncate(&mut self, len: usize, pools: &mut [PagePool]) {
        (self.len, self.start) = (len, len);
        self.changes += 1;
        for (table, pool) in self.tables.iter_mut().zip(pools) {
            let keep = len.div_ceil(PAGE).saturating_sub(table.first);
            table.pages.drain(keep.min(table.pages.len())..).for_each(|id| pool.let_go(id));
            if len == 0 {
                table.first = 0;
            }
        }
    }
}
