//! Random histories of [`PageTables`] against a model of what every page holds.

use std::collections::HashMap;

use super::{Kind, PAGE, PageCopy, PageTables};
use crate::Salt;

/// Sequences at once.
const N_SEQ: usize = 3;
/// Longest sequence.
const LONGEST: usize = 400;
/// Stands among windows for recurrent layers.
const STATES: Option<usize> = Some(0);

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Tables under test, the tokens of each sequence, and for each slot of each page which tokens it stands for: all from
/// the beginning of the sequence, as a key depends on them all; of recurrent layers all slots stand for the last token.
struct History {
    tables: PageTables,
    random: Random,
    tokens: Vec<Vec<u32>>,
    slots: HashMap<(usize, u32), [u64; PAGE]>,
}

/// A number for a sequence of tokens under a salt, and each of its beginnings.
fn digests(salt: &Salt, tokens: &[u32]) -> Vec<u64> {
    let next = |digest: &mut u64, token: &u32| {
        *digest = (*digest ^ u64::from(*token) ^ 0x9e37).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        Some(*digest)
    };
    let first = salt.as_ref().map_or(1, |salt| 2 + u64::from(salt.as_bytes()[0]));
    tokens.iter().scan(first, next).collect()
}

impl History {
    /// Windows of the kinds, and pages beyond what the longest sequence takes.
    fn new(seed: u64, windows: &[Option<usize>], more: usize) -> Self {
        let pages = LONGEST.div_ceil(PAGE) + more;
        let kind = |&window: &Option<usize>| match window {
            STATES => Kind { window: Some(2), recurrent: true, slots: 0, pages },
            _ => Kind { window, recurrent: false, slots: 0, pages },
        };
        let kinds: Vec<Kind> = windows.iter().map(kind).collect();
        Self {
            tables: PageTables::new(&kinds, N_SEQ),
            random: Random(seed),
            tokens: vec![Vec::new(); N_SEQ],
            slots: HashMap::new(),
        }
    }

    /// Tokens that begin as others do: few prompts, which part where a die says so.
    fn prompt(&mut self) -> Vec<u32> {
        let n = 1 + self.random.below(LONGEST);
        let (family, part) = (self.random.below(3), self.random.below(2 * LONGEST));
        let other = self.random.below(4);
        (0..n).map(|i| (if i < part { family } else { 10 + other } + i % 7) as u32).collect()
    }

    fn copy(&mut self, copies: &[PageCopy]) {
        for copy in copies {
            assert_eq!(self.tables.pool(copy.kind).holders(copy.to), 1, "a copy belongs to one sequence");
            let from = self.slots[&(copy.kind, copy.from)];
            self.slots.insert((copy.kind, copy.to), from);
        }
    }

    /// A step of some chunks that add `more` tokens to a sequence, sometimes taken back.
    fn step(&mut self, seq: usize, more: &[u32], ends: usize) {
        let before = self.tokens[seq].clone();
        let mut states = None;
        let free: Vec<usize> = (0..self.tables.kinds().len()).map(|k| self.tables.available(k)).collect();
        let mut fits = true;
        for chunk in more.chunks(more.len().div_ceil(ends).max(1)) {
            let (start, end) = (self.tokens[seq].len(), self.tokens[seq].len() + chunk.len());
            match self.tables.reserve(&[(seq, end)]) {
                Ok(copies) => self.copy(&copies),
                Err(pages) => {
                    let needed = end.div_ceil(PAGE) - start / PAGE;
                    assert!(pages.needed > pages.free && pages.needed <= needed, "{pages:?} for {start}..{end}");
                    assert!(ends > 1 || free.contains(&pages.free));
                    fits = false;
                    break;
                }
            }
            // As the storage does it: the states of the page that is written first, in case the step is taken back.
            states.get_or_insert_with(|| self.states(seq, start));
            self.tokens[seq].extend(chunk);
            let digests = digests(&self.tables.sequences[seq].salt, &self.tokens[seq]);
            for (k, kind) in self.tables.kinds().iter().enumerate() {
                if kind.recurrent && start > 0 {
                    let page = self.tables.page(k, seq, (start - 1) / PAGE);
                    assert_eq!(self.slots[&(k, page)][0], digests[start - 1], "the state before position {start}");
                }
            }
            for k in 0..self.tables.kinds().len() {
                (start..end).for_each(|pos| self.write(k, seq, pos, digests[pos]));
            }
            self.check(seq, start);
            self.tables.advance(seq, end);
        }
        if fits && self.random.below(5) > 0 {
            self.tables.commit(seq, self.tokens[seq].len());
        } else {
            self.tables.abandon(seq);
            self.tokens[seq] = before;
            for (kind, slots) in states.unwrap_or_default() {
                let page = self.tables.page(kind, seq, self.tables.len(seq) / PAGE);
                self.slots.insert((kind, page), slots);
            }
        }
    }

    /// What a token leaves in a kind of layer.
    fn write(&mut self, k: usize, seq: usize, pos: usize, digest: u64) {
        let recurrent = self.tables.kinds()[k].recurrent;
        let page = self.tables.page(k, seq, pos / PAGE);
        // States of blocks that are passed at once share a page among themselves.
        let own = self.tables.blocks(k, seq).filter(|&block| self.tables.page(k, seq, block) == page).count();
        assert!(own == 1 || recurrent, "a page per block");
        assert_eq!(self.tables.pool(k).holders(page), own as u32, "a shared page is never written");
        let slots = self.slots.entry((k, page)).or_insert([0; PAGE]);
        if recurrent { slots.fill(digest) } else { slots[pos % PAGE] = digest }
    }

    /// A step of one token and guesses behind it, of which some are accepted; states behind guesses are elsewhere until then.
    fn guess(&mut self, seq: usize, tokens: &[u32], right: usize) {
        let start = self.tokens[seq].len();
        let Ok(copies) = self.tables.reserve(&[(seq, start + tokens.len())]) else { return };
        self.copy(&copies);
        self.tokens[seq].extend(tokens);
        let digests = digests(&self.tables.sequences[seq].salt, &self.tokens[seq]);
        let recurrent: Vec<bool> = self.tables.kinds().iter().map(|kind| kind.recurrent).collect();
        for (k, &recurrent) in recurrent.iter().enumerate() {
            let written = if recurrent { start..start + 1 } else { start..start + tokens.len() };
            written.for_each(|pos| self.write(k, seq, pos, digests[pos]));
        }
        self.tables.commit(seq, start + 1);
        let end = start + 1 + right;
        for k in (0..recurrent.len()).filter(|&k| recurrent[k]) {
            (start + 1..end).for_each(|pos| self.write(k, seq, pos, digests[pos]));
        }
        self.tables.accept(seq, end);
        self.tokens[seq].truncate(end);
        self.check(seq, end);
    }

    /// The states in the block that a step of a sequence of `len` tokens goes on in.
    fn states(&self, seq: usize, len: usize) -> Vec<(usize, [u64; PAGE])> {
        let recurrent = self.tables.kinds().iter().enumerate().filter(|(_, kind)| kind.recurrent);
        let of_kind = |(k, _): (usize, _)| (k, self.slots[&(k, self.tables.page(k, seq, len / PAGE))]);
        if len.is_multiple_of(PAGE) { Vec::new() } else { recurrent.map(of_kind).collect() }
    }

    /// What position `next` of a sequence sees is there.
    fn check(&self, seq: usize, next: usize) {
        let digests = digests(&self.tables.sequences[seq].salt, &self.tokens[seq]);
        for (k, kind) in self.tables.kinds().iter().enumerate() {
            if kind.recurrent {
                let len = self.tables.len(seq);
                let page = len.checked_sub(1).map(|last| self.tables.page(k, seq, last / PAGE));
                let state = page.map(|page| self.slots[&(k, page)][0]);
                // In the middle of a step it is further on.
                let written = self.tokens[seq].len() == len;
                assert!(
                    next < len || !written || state == digests[..len].last().copied(),
                    "kind {k}, the state after {len}"
                );
                continue;
            }
            for pos in kind.oldest_seen(next)..self.tokens[seq].len().min(next + 1) {
                let page = self.tables.page(k, seq, pos / PAGE);
                assert_eq!(self.slots[&(k, page)][pos % PAGE], digests[pos], "kind {k}, position {pos} of {next}");
            }
        }
    }

    fn attach(&mut self, seq: usize, tokens: &[u32]) -> usize {
        let (n, copies) = self.tables.attach(seq, tokens);
        self.copy(&copies);
        self.tokens[seq] = tokens[..n].to_vec();
        n
    }

    /// Another sequence goes on from somewhere in this one.
    fn fork(&mut self, from: usize) {
        let (to, len) = ((from + 1) % N_SEQ, self.random.below(self.tokens[from].len() + 2));
        let n = self.tables.fork(from, to, len);
        assert!(n == 0 || n == len);
        let whole = self.tables.kinds().iter().all(|kind| kind.window.is_none());
        assert!(n == len || !whole || len > self.tokens[from].len(), "nothing is in the way");
        self.tokens[to] = self.tokens[from][..n].to_vec();
        self.check(to, n);
    }

    /// Anything that may happen.
    fn turn(&mut self) {
        let seq = self.random.below(N_SEQ);
        let len = self.tokens[seq].len();
        match self.random.below(12) {
            0 | 1 => {
                let prompt = self.prompt();
                let salt = self.salt();
                self.tables.set_salt(seq, &salt);
                let n = self.attach(seq, &prompt);
                self.step(seq, &prompt[n..], 1);
            }
            2..5 => {
                let more = 1 + self.random.below(if len.is_multiple_of(2) { 4 } else { 150 });
                let more: Vec<u32> = (len..LONGEST.min(len + more)).map(|i| (i % 5) as u32).collect();
                let ends = 1 + self.random.below(3);
                match more.len().min(PAGE) {
                    n @ 1.. if len > 0 && ends == 1 => {
                        let right = self.random.below(n);
                        self.guess(seq, &more[..n], right);
                    }
                    _ => self.step(seq, &more, ends),
                }
            }
            5 => {
                let pos = self.random.below(LONGEST);
                let kept = self.tables.rewind(seq, pos);
                let states = self.tables.kinds().iter().any(|kind| kind.recurrent);
                let held = if states && pos < len { pos / PAGE * PAGE } else { pos.min(len) };
                assert!(kept == held || kept == 0);
                assert!(kept > 0 || pos < len || len == 0, "what is held is kept");
                self.tokens[seq].truncate(kept);
            }
            6 => self.tables.share(seq, &self.tokens[seq]),
            7 | 8 => self.fork(seq),
            9 | 10 => {
                let n = if self.random.below(4) == 0 { self.random.below(len + 1) } else { len };
                let tokens = std::mem::take(&mut self.tokens[seq]);
                self.tables.release(seq, &tokens[..n]);
            }
            _ => {
                let (keep, salt) = (self.prompt(), self.salt());
                match self.random.below(20) {
                    0 => self.tables.forget(&keep),
                    1..6 => self.tables.erase(&salt, &keep),
                    _ => (),
                }
            }
        }
        let len = self.tokens[seq].len();
        assert_eq!(self.tables.len(seq), len);
        self.check(seq, len);
    }

    /// None, or one of two.
    fn salt(&mut self) -> Salt {
        [None, Some("a".into()), Some("b".into())][self.random.below(3)].clone()
    }

    /// Every page is held as often as it lies in a sequence or the tree, and no page is lost.
    fn check_counts(&self) {
        for (k, pool) in self.tables.pools.iter().enumerate() {
            let cached: Vec<u32> = self.tables.tree.pages().filter(|&(kind, _)| kind == k).map(|(_, id)| id).collect();
            let mut holders = vec![0; pool.ever_used()];
            let of_sequences = self.tables.sequences.iter().flat_map(|s| &s.tables[k].pages);
            of_sequences.chain(&cached).for_each(|&id| holders[id as usize] += 1);
            for (id, &n) in holders.iter().enumerate() {
                assert_eq!(pool.holders(id as u32), n, "page {id} of kind {k}");
                assert_eq!(pool.is_cached(id as u32), cached.contains(&(id as u32)));
            }
            let held = holders.iter().filter(|&&n| n > 0).count();
            assert_eq!(pool.free(), pool.total() - held);
            let evictable = cached.iter().filter(|&&id| holders[id as usize] == 1).count();
            assert_eq!(pool.evictable(), evictable);
        }
    }
}

#[test]
fn any_history_keeps_what_sequences_hold() {
    let kinds: [&[Option<usize>]; 8] = [
        &[None],
        &[None, Some(70)],
        &[Some(64), None],
        &[Some(1)],
        &[None, Some(200)],
        &[Some(63), Some(130)],
        &[STATES, None],
        &[STATES],
    ];
    for (seed, windows) in kinds.into_iter().enumerate() {
        for more in [0, 1, 4, 20] {
            let mut history = History::new(seed as u64 + 1, windows, more);
            for turn in 0..4200 {
                history.turn();
                if turn % 8 == 0 {
                    history.check_counts();
                }
            }
            // All of it can be taken back.
            (0..N_SEQ).for_each(|seq| history.tables.release(seq, &[]));
            history.tables.forget(&[]);
            history.check_counts();
            assert_eq!(history.tables.counts().free, history.tables.counts().total);
        }
    }
}

/// A history with no die: `n` tokens computed and left behind.
fn left(windows: &[Option<usize>], tokens: &[u32]) -> History {
    let mut history = History::new(0, windows, 20);
    history.tokens[0] = Vec::new();
    while history.tokens[0].len() < tokens.len() {
        history.step(0, &tokens[history.tokens[0].len()..], 1);
    }
    history.tables.release(0, tokens);
    history
}

#[test]
fn salts_share_nothing() {
    for windows in [&[None][..], &[None, Some(70)]] {
        for n in [40, 128, 200] {
            let tokens: Vec<u32> = (0..n).map(|i| i % 7).collect();
            let mut history = left(windows, &tokens);
            let salts: [Salt; 3] = [None, Some("a".into()), Some("b".into())];
            for (salt, found) in [(&salts[1], 0), (&salts[0], n), (&salts[2], 0), (&salts[1], n), (&salts[2], n)] {
                history.tables.set_salt(1, salt);
                assert_eq!(history.tables.cached(salt, &tokens).held, found, "{windows:?} {n} {salt:?}");
                history.tokens[1] = tokens[..history.attach(1, &tokens)].to_vec();
                assert_eq!(history.tokens[1].len() as u32, found, "{windows:?} {n} {salt:?}");
                while history.tokens[1].len() < tokens.len() {
                    history.step(1, &tokens[history.tokens[1].len()..], 1);
                }
                history.tables.release(1, &tokens);
                history.check_counts();
            }
            // What is erased of one stays with the others.
            history.tables.erase(&salts[1], &tokens);
            let held = salts.each_ref().map(|salt| history.tables.cached(salt, &tokens).held);
            assert_eq!(held, [n, 0, n], "{windows:?}");
            history.tables.forget(&tokens);
            let held = salts.each_ref().map(|salt| history.tables.cached(salt, &tokens).held);
            assert_eq!(held, [n, 0, 0], "{windows:?}");
            history.check_counts();
        }
    }
}

#[test]
fn what_was_left_is_found_to_the_token() {
    let tokens: Vec<u32> = (0..350).collect();
    for windows in [&[None][..], &[None, Some(70)], &[Some(64)], &[None, Some(200)]] {
        let mut history = left(windows, &tokens);
        assert_eq!(history.attach(1, &tokens), 350, "{windows:?}");
        history.tables.release(1, &tokens);
        let longer: Vec<u32> = (0..400).collect();
        assert_eq!(history.attach(2, &longer), 350);
        history.tables.release(2, &longer);
        // Up to where they part; a window must be there.
        let other: Vec<u32> = (0..340).chain([7, 8, 9]).collect();
        assert_eq!(history.attach(1, &other), 340);
        history.tables.release(1, &[]);
        let early: Vec<u32> = (0..130).chain([7; 20]).collect();
        let expected = if windows.iter().all(Option::is_none) { 130 } else { 0 };
        assert_eq!(history.attach(1, &early), expected);
        assert_eq!(history.attach(1, &[9, 9, 9]), 0);
    }
}

#[test]
fn one_sequence_always_fits() {
    let tokens: Vec<u32> = (0..LONGEST as u32).collect();
    for windows in [&[None][..], &[None, Some(70)]] {
        let mut history = History::new(3, windows, 0);
        for turn in 0..40 {
            let parts = turn * 11 % LONGEST;
            let prompt: Vec<u32> =
                tokens[..parts].iter().copied().chain((parts as u32..LONGEST as u32).rev()).collect();
            let n = history.attach(0, &prompt);
            let copies = history.tables.reserve(&[(0, LONGEST)]).expect("the whole pool");
            assert!(n <= LONGEST && copies.len() <= windows.len());
            history.tables.abandon(0);
            // Shared whole, then written again in its middle, with no page left for a copy.
            while history.tables.len(0) < LONGEST {
                let at = history.tables.len(0);
                history.step(0, &prompt[at..], 1);
            }
            history.tables.share(0, &prompt);
            let kept = history.tables.rewind(0, LONGEST - 10);
            history.tokens[0].truncate(kept);
            history.tables.reserve(&[(0, LONGEST)]).expect("the whole pool");
            history.tables.abandon(0);
            history.tables.release(0, &prompt[..kept]);
            history.tokens[0].clear();
            history.check_counts();
        }
    }
}
