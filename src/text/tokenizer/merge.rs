//! Merging adjacent pieces of a word, best pair first: the step that SPM and BPE share.

use std::{cmp::Reverse, collections::BinaryHeap};

/// No token, or no neighbour.
pub const NONE: u32 = u32::MAX;

/// A run of the word's bytes that is one piece so far.
#[derive(Debug, Clone, Copy)]
pub struct Symbol {
    /// The piece's token, or [`NONE`] while it has none.
    pub id: u32,
    /// First byte in the word.
    pub start: u32,
    /// Length in bytes; 0 once it has become part of its left neighbour.
    pub len: u32,
    prev: u32,
    next: u32,
}

impl Symbol {
    /// The bytes of the word that it covers.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// What two neighbours become: the token, and its turn (smallest first, then leftmost).
#[derive(Debug, Clone, Copy)]
pub struct Join {
    pub turn: u32,
    pub id: u32,
}

/// A pair that could be merged, in the order in which pairs are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    turn: u32,
    left: u32,
    right: u32,
    /// Bytes of both when the pair was seen; another length now means that one of them has grown.
    len: u32,
    id: u32,
}

/// The symbols of one word and the queue of their pairs; kept between words for its memory.
#[derive(Default)]
pub struct Merger {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Pair>>,
}

impl Merger {
    /// Starts a new word.
    pub fn clear(&mut self) {
        self.symbols.clear();
        self.queue.clear();
    }

    /// Appends a symbol of `len` > 0 bytes to the word.
    pub fn push(&mut self, id: u32, len: usize) {
        let at = self.symbols.len() as u32;
        let start = self.symbols.last().map_or(0, |s| s.start + s.len);
        if let Some(last) = self.symbols.last_mut() {
            last.next = at;
        }
        self.symbols.push(Symbol { id, start, len: len as u32, prev: at.wrapping_sub(1), next: NONE });
    }

    /// Merges until `join` has nothing more to offer. O(n log n) in the number of symbols.
    pub fn merge(&mut self, join: impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        for left in 1..self.symbols.len() as u32 {
            self.offer(left - 1, left, &join);
        }
        while let Some(Reverse(pair)) = self.queue.pop() {
            let (left, right) = (self.symbols[pair.left as usize], self.symbols[pair.right as usize]);
            if left.len == 0 || right.len == 0 || left.len + right.len != pair.len {
                continue;
            }
            self.symbols[pair.right as usize].len = 0;
            let merged = &mut self.symbols[pair.left as usize];
            (merged.id, merged.len, merged.next) = (pair.id, pair.len, right.next);
            if right.next != NONE {
                self.symbols[right.next as usize].prev = pair.left;
                self.offer(pair.left, right.next, &join);
            }
            if left.prev != NONE {
                self.offer(left.prev, pair.left, &join);
            }
        }
    }

    fn offer(&mut self, left: u32, right: u32, join: &impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        let (a, b) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        if let Some(Join { turn, id }) = join(a, b) {
            self.queue.push(Reverse(Pair { turn, left, right, len: a.len + b.len, id }));
        }
    }

    /// What is left, in order.
    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|s| s.len > 0)
    }
}
