//! The registers of a warp: rows of 32 lanes, each with a mask of the lanes that were written.
//!
//! What an instruction computes of an unwritten lane is unwritten as well; who stores, addresses, branches, votes or
//! multiplies matrices by it asks. So compilers may move values around that nobody uses.

use super::code::{Files, Guard, R, Special};

pub(super) const ALL: u32 = u32::MAX;

pub(super) struct Registers {
    pub words: Vec<[u32; 32]>,
    pub longs: Vec<[u64; 32]>,
    pub predicates: Vec<u32>,
    /// Lanes that hold a value, by row.
    pub word_lanes: Vec<u32>,
    pub long_lanes: Vec<u32>,
    pub predicate_lanes: Vec<u32>,
}

/// Writes the lanes of a mask.
#[inline(always)]
pub(super) fn put<T: Copy>(row: &mut [T; 32], value: &[T; 32], mask: u32) {
    if mask == ALL {
        *row = *value;
    } else {
        for i in 0..32 {
            if mask >> i & 1 != 0 {
                row[i] = value[i];
            }
        }
    }
}

/// What `f` gives for each lane. Compiled into its caller, and so for the instructions that the caller may use.
#[inline(always)]
pub(super) fn each<T: Copy + Default>(mut f: impl FnMut(usize) -> T) -> [T; 32] {
    let mut row = [T::default(); 32];
    for lane in 0..32 {
        row[lane] = f(lane);
    }
    row
}

/// The same of what a row holds.
#[inline(always)]
pub(super) fn over<T: Copy, U: Copy + Default>(row: &[T; 32], f: impl Fn(T) -> U) -> [U; 32] {
    each(|lane| f(row[lane]))
}

/// Lanes whose bit is set, the lowest first.
#[inline(always)]
pub(super) fn lanes(mask: u32) -> Lanes {
    Lanes(mask)
}

/// See [`lanes`].
pub(super) struct Lanes(u32);

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (lane < 32).then_some(lane)
    }
}

/// The lanes of a mask for which something holds.
#[inline(always)]
pub(super) fn those(mask: u32, holds: impl Fn(usize) -> bool) -> u32 {
    let mut those = 0;
    for lane in lanes(mask) {
        those |= u32::from(holds(lane)) << lane;
    }
    those
}

#[inline(always)]
fn merge(lanes: &mut u32, mask: u32, defined: u32) {
    *lanes = *lanes & !mask | defined & mask;
}

impl Registers {
    /// Constants are there, all else is unwritten.
    pub fn new(files: &Files) -> Self {
        let mut new = Self {
            words: vec![[0; 32]; files.words],
            longs: vec![[0; 32]; files.longs],
            predicates: vec![0; files.predicates],
            word_lanes: vec![0; files.words],
            long_lanes: vec![0; files.longs],
            predicate_lanes: vec![0; files.predicates],
        };
        for (row, value) in &files.constants {
            new.words[usize::from(*row)] = [*value; 32];
        }
        for (row, value) in &files.long_constants {
            new.longs[usize::from(*row)] = [*value; 32];
        }
        for (row, value) in &files.predicate_constants {
            new.predicates[usize::from(*row)] = if *value { ALL } else { 0 };
        }
        new
    }

    /// As a block finds them: `special` gives the values of the special registers.
    pub fn begin(&mut self, files: &Files, special: impl Fn(Special) -> [u32; 32]) {
        self.word_lanes.fill(0);
        self.long_lanes.fill(0);
        self.predicate_lanes.fill(0);
        files.constants.iter().for_each(|(row, _)| self.word_lanes[usize::from(*row)] = ALL);
        files.long_constants.iter().for_each(|(row, _)| self.long_lanes[usize::from(*row)] = ALL);
        files.predicate_constants.iter().for_each(|(row, _)| self.predicate_lanes[usize::from(*row)] = ALL);
        for (row, of) in &files.specials {
            self.words[usize::from(*row)] = special(*of);
            self.word_lanes[usize::from(*row)] = ALL;
        }
    }

    #[inline(always)]
    pub fn word(&self, row: R) -> &[u32; 32] {
        &self.words[usize::from(row)]
    }

    #[inline(always)]
    pub fn long(&self, row: R) -> &[u64; 32] {
        &self.longs[usize::from(row)]
    }

    #[inline(always)]
    pub fn predicate(&self, row: R) -> u32 {
        self.predicates[usize::from(row)]
    }

    /// Lanes in which the row was written.
    #[inline(always)]
    pub fn word_lanes(&self, row: R) -> u32 {
        self.word_lanes[usize::from(row)]
    }

    #[inline(always)]
    pub fn long_lanes(&self, row: R) -> u32 {
        self.long_lanes[usize::from(row)]
    }

    #[inline(always)]
    pub fn predicate_lanes(&self, row: R) -> u32 {
        self.predicate_lanes[usize::from(row)]
    }

    #[inline(always)]
    pub fn set_word(&mut self, row: R, value: &[u32; 32], mask: u32, defined: u32) {
        put(&mut self.words[usize::from(row)], value, mask);
        merge(&mut self.word_lanes[usize::from(row)], mask, defined);
    }

    #[inline(always)]
    pub fn set_long(&mut self, row: R, value: &[u64; 32], mask: u32, defined: u32) {
        put(&mut self.longs[usize::from(row)], value, mask);
        merge(&mut self.long_lanes[usize::from(row)], mask, defined);
    }

    #[inline(always)]
    pub fn set_predicate(&mut self, row: R, value: u32, mask: u32, defined: u32) {
        merge(&mut self.predicates[usize::from(row)], mask, value);
        merge(&mut self.predicate_lanes[usize::from(row)], mask, defined);
    }

    /// d = f(a) in words.
    #[inline(always)]
    pub fn map(&mut self, mask: u32, d: R, a: R, f: impl Fn(u32) -> u32) {
        let x = self.word(a);
        let value = each(|i| f(x[i]));
        self.set_word(d, &value, mask, self.word_lanes(a));
    }

    /// d = f(a, b) in words.
    #[inline(always)]
    pub fn map2(&mut self, mask: u32, d: R, [a, b]: [R; 2], f: impl Fn(u32, u32) -> u32) {
        let (x, y) = (self.word(a), self.word(b));
        let value = each(|i| f(x[i], y[i]));
        self.set_word(d, &value, mask, self.word_lanes(a) & self.word_lanes(b));
    }

    /// d = f(a, b, c) in words.
    #[inline(always)]
    pub fn map3(&mut self, mask: u32, d: R, [a, b, c]: [R; 3], f: impl Fn(u32, u32, u32) -> u32) {
        let (x, y, z) = (self.word(a), self.word(b), self.word(c));
        let value = each(|i| f(x[i], y[i], z[i]));
        self.set_word(d, &value, mask, self.word_lanes(a) & self.word_lanes(b) & self.word_lanes(c));
    }

    /// d = f(a) in longs.
    #[inline(always)]
    pub fn map_long(&mut self, mask: u32, d: R, a: R, f: impl Fn(u64) -> u64) {
        let x = self.long(a);
        let value = each(|i| f(x[i]));
        self.set_long(d, &value, mask, self.long_lanes(a));
    }

    /// d = f(a, b) in longs.
    #[inline(always)]
    pub fn map2_long(&mut self, mask: u32, d: R, [a, b]: [R; 2], f: impl Fn(u64, u64) -> u64) {
        let (x, y) = (self.long(a), self.long(b));
        let value = each(|i| f(x[i], y[i]));
        self.set_long(d, &value, mask, self.long_lanes(a) & self.long_lanes(b));
    }

    /// The lanes of a mask whose guard holds.
    ///
    /// # Errors
    /// The lanes of the mask in which its predicate was never written.
    #[inline(always)]
    pub fn guarded(&self, guard: Option<Guard>, mask: u32) -> Result<u32, u32> {
        let Some(Guard { predicate, not }) = guard else { return Ok(mask) };
        let unwritten = mask & !self.predicate_lanes(predicate);
        if unwritten != 0 {
            return Err(unwritten);
        }
        Ok(mask & if not { !self.predicate(predicate) } else { self.predicate(predicate) })
    }
}
