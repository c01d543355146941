//! A decoder without arithmetic: real page tables, and for every position a number that depends on all that a model would
//! look at there. The next token is that number's remainder.

use std::{
    io::{self, Read, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use qrun::generate::Cancel;
use qrun_cuda::{DeviceError, ops::sample::SampledToken};
use qrun_models::{
    Batch, Cached, Forward, ForwardError, Output, PageCount, Rows, Salt,
    kv::{Kind, PAGE, PageCopy, PageTables},
};

pub const N_VOCAB: usize = 16;

/// The size of a decoder, and how long its steps take.
#[derive(Debug, Clone)]
pub struct Size {
    pub n_ctx: usize,
    pub n_seq: usize,
    pub n_ubatch: usize,
    /// Pages of layers that see everything.
    pub pages: usize,
    /// By kind of layer.
    pub windows: Vec<Option<usize>>,
    /// Microseconds of a step, of each row of a prompt, and of each of decoding.
    pub us: [u64; 3],
}

impl Size {
    /// As for a model: enough pages with a window for all sequences, and a place per sequence to go on from.
    pub fn kinds(&self) -> Vec<Kind> {
        let all = self.n_ctx.div_ceil(PAGE);
        let kind = |&window: &Option<usize>| match window {
            None => Kind { window, recurrent: false, slots: all, pages: self.pages.max(all) },
            Some(w) => {
                let before = (w - 1).div_ceil(PAGE);
                let slots = all.min(before + 1 + (self.n_ubatch + self.n_seq + PAGE) / PAGE);
                Kind { window, recurrent: false, slots, pages: self.n_seq * (slots + all.min(before + 1)) }
            }
        };
        self.windows.iter().map(kind).collect()
    }
}

/// The first position that `pos` sees through a window.
fn oldest(window: Option<usize>, pos: usize) -> usize {
    window.map_or(0, |window| (pos + 1).saturating_sub(window))
}

/// The number of a position: of its token, of the one before, and of the first that each window shows.
fn number(token: u32, before: u64, seen: impl Iterator<Item = u64>) -> u64 {
    let mix = |a: u64, b: u64| (a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    seen.fold(mix(before, u64::from(token) + 1), mix)
}

fn token_of(number: u64) -> u32 {
    (number >> 32) as u32 % N_VOCAB as u32
}

/// The answer of `n` tokens to a prompt.
pub fn answer(windows: &[Option<usize>], prompt: &[u32], n: usize) -> Vec<u32> {
    let (mut tokens, mut numbers) = (prompt.to_vec(), Vec::<u64>::new());
    while numbers.len() + 1 < prompt.len() + n {
        let pos = numbers.len();
        let seen = windows.iter().map(|&w| if oldest(w, pos) < pos { numbers[oldest(w, pos)] } else { 0 });
        let number = number(tokens[pos], numbers.last().copied().unwrap_or(0), seen);
        numbers.push(number);
        if tokens.len() == numbers.len() {
            tokens.push(token_of(number));
        }
    }
    tokens.split_off(prompt.len())
}

/// What is told to a decoder from outside, and what it tells.
#[derive(Default)]
pub struct Wires {
    /// Its next step fails.
    pub fails: bool,
    /// Its next step panics.
    pub panics: bool,
    /// Somebody cancels in the middle of its next step.
    pub cancels: Option<Cancel>,
    /// Time that has passed, in microseconds.
    pub now: u64,
    /// The next step takes so many times longer.
    pub slower: u64,
    /// Rows of each sequence in the last step that came to its end, and whether there was one.
    pub rows: Option<Vec<usize>>,
    /// Tokens of each sequence before it.
    pub lens: Vec<usize>,
    /// Whether every page is held as often as it lies in tables and the prefix cache.
    pub counted: bool,
}

pub struct Paper {
    size: Size,
    tables: PageTables,
    /// `[kind][page][slot]`.
    slots: Vec<Vec<[u64; PAGE]>>,
    wires: Arc<Mutex<Wires>>,
    /// Sequences whose last row gave a token: one row more is a step of decoding.
    decoding: Vec<bool>,
    logits: Vec<f32>,
    tokens: Vec<Option<SampledToken>>,
}

impl Paper {
    pub fn new(size: &Size, wires: Arc<Mutex<Wires>>) -> Self {
        let tables = PageTables::new(&size.kinds(), size.n_seq);
        let slots = vec![Vec::new(); size.windows.len()];
        let (size, decoding) = (size.clone(), vec![false; size.n_seq]);
        Self { size, tables, slots, wires, decoding, logits: Vec::new(), tokens: Vec::new() }
    }

    pub fn clock(wires: &Arc<Mutex<Wires>>) -> qrun::generate::Clock {
        let wires = wires.clone();
        Box::new(move || Duration::from_micros(wires.lock().expect("one thread").now))
    }

    fn copy(&mut self, copies: &[PageCopy]) {
        for (kind, slots) in self.slots.iter_mut().enumerate() {
            slots.resize(self.tables.pool(kind).ever_used().max(slots.len()), [0; PAGE]);
        }
        for copy in copies {
            self.slots[copy.kind][copy.to as usize] = self.slots[copy.kind][copy.from as usize];
        }
    }

    fn at(&self, kind: usize, seq: usize, pos: usize) -> u64 {
        self.slots[kind][self.tables.page(kind, seq, pos / PAGE) as usize][pos % PAGE]
    }

    /// Computes and stores the number of a position.
    fn compute(&mut self, token: u32, seq: usize, pos: usize) -> u64 {
        let windows = self.size.windows.iter().enumerate();
        let seen = windows.map(|(kind, &w)| if oldest(w, pos) < pos { self.at(kind, seq, oldest(w, pos)) } else { 0 });
        let number = number(token, if pos > 0 { self.at(0, seq, pos - 1) } else { 0 }, seen);
        for kind in 0..self.slots.len() {
            let page = self.tables.page(kind, seq, pos / PAGE);
            assert_eq!(self.tables.pool(kind).holders(page), 1, "a shared page is never written");
            self.slots[kind][page as usize][pos % PAGE] = number;
        }
        number
    }

    /// Whether the holders of every page are the sequences that have it, and the prefix cache.
    fn count(&self) -> bool {
        (0..self.slots.len()).all(|kind| {
            let pool = self.tables.pool(kind);
            let mut holders: Vec<u32> = (0..pool.ever_used()).map(|id| u32::from(pool.is_cached(id as u32))).collect();
            for seq in 0..self.size.n_seq {
                self.tables.blocks(kind, seq).for_each(|b| holders[self.tables.page(kind, seq, b) as usize] += 1);
            }
            let alone = |id: usize| pool.is_cached(id as u32) && holders[id] == 1;
            holders.iter().enumerate().all(|(id, &n)| pool.holders(id as u32) == n)
                && pool.free() == pool.total() - holders.iter().filter(|n| **n > 0).count()
                && pool.evictable() == (0..holders.len()).filter(|&id| alone(id)).count()
        })
    }
}

impl Forward for Paper {
    fn n_vocab(&self) -> usize {
        N_VOCAB
    }
    fn n_ctx(&self) -> usize {
        self.size.n_ctx
    }
    fn n_seq(&self) -> usize {
        self.size.n_seq
    }
    fn step(&mut self, batch: &Batch) -> Result<Rows<'_>, ForwardError> {
        let wires = self.wires.clone();
        let mut wires = wires.lock().expect("one thread");
        if std::mem::take(&mut wires.panics) {
            drop(wires);
            panic!("as a test asks for");
        }
        (wires.counted, wires.rows) = (self.count(), None);
        wires.lens = (0..self.size.n_seq).map(|seq| self.tables.len(seq)).collect();
        let mut rows = vec![0; self.size.n_seq];
        batch.entries.iter().for_each(|e| rows[e.seq as usize] += 1);
        let decodes = rows.iter().zip(&self.decoding).filter(|&(&n, &decodes)| n == 1 && decodes).count() as u64;
        let us = self.size.us[0] + self.size.us[1] * (batch.entries.len() as u64 - decodes) + self.size.us[2] * decodes;
        wires.now += us * std::mem::take(&mut wires.slower).max(1);
        if let Some(cancel) = wires.cancels.take() {
            cancel.cancel();
        }
        if std::mem::take(&mut wires.fails) {
            let device = DeviceError::Driver { call: "a call".into(), text: "failed".into() };
            return Err(ForwardError::Device(device));
        }
        if (batch.cancelled)() {
            return Err(ForwardError::Cancelled);
        }
        let ends: Vec<(usize, usize)> =
            rows.iter().enumerate().filter(|(_, n)| **n > 0).map(|(seq, n)| (seq, wires.lens[seq] + n)).collect();
        let copies = self.tables.reserve(&ends)?;
        self.copy(&copies);
        self.tokens.clear();
        self.logits.clear();
        let mut lens = wires.lens.clone();
        for e in batch.entries {
            let seq = e.seq as usize;
            assert_eq!(e.pos as usize, lens[seq], "the next position");
            lens[seq] += 1;
            let number = self.compute(e.token, seq, e.pos as usize);
            self.decoding[seq] = e.output != Output::None;
            if self.decoding[seq] {
                self.tokens.push(None);
                let start = self.logits.len();
                self.logits.resize(start + N_VOCAB, 0.0);
                self.logits[start + token_of(number) as usize] = 1.0;
            }
        }
        ends.iter().for_each(|&(seq, end)| self.tables.commit(seq, end));
        wires.rows = Some(rows);
        Ok(self.rows())
    }
    fn rows(&self) -> Rows<'_> {
        Rows::new(N_VOCAB, &self.tokens, &self.logits)
    }
    fn len(&self, seq: u32) -> u32 {
        self.tables.len(seq as usize) as u32
    }
    fn rewind(&mut self, seq: u32, pos: u32) -> u32 {
        self.decoding[seq as usize] = false;
        self.tables.rewind(seq as usize, pos as usize) as u32
    }
    fn attach(&mut self, seq: u32, tokens: &[u32]) -> u32 {
        self.decoding[seq as usize] = false;
        let (n, copies) = self.tables.attach(seq as usize, tokens);
        self.copy(&copies);
        n as u32
    }
    fn set_salt(&mut self, seq: u32, salt: &Salt) {
        self.tables.set_salt(seq as usize, salt);
    }
    fn cached(&self, salt: &Salt, tokens: &[u32]) -> Cached {
        self.tables.cached(salt, tokens)
    }
    fn fork(&mut self, from: u32, to: u32, len: u32) -> u32 {
        self.decoding[to as usize] = false;
        self.tables.fork(from as usize, to as usize, len as usize) as u32
    }
    fn share(&mut self, seq: u32, tokens: &[u32]) {
        self.tables.share(seq as usize, tokens);
    }
    fn release(&mut self, seq: u32, tokens: &[u32]) {
        self.decoding[seq as usize] = false;
        self.tables.release(seq as usize, tokens);
    }
    fn forget(&mut self, keep: &[u32]) {
        self.tables.forget(keep);
    }
    fn pages(&self) -> PageCount {
        self.tables.counts()
    }
    fn bytes_per_token(&self) -> u64 {
        0
    }
    fn kv_bytes(&self) -> u64 {
        0
    }
    fn save(&self, _: u32, _: &mut dyn Write) -> io::Result<()> {
        Err(io::Error::other("nothing to save"))
    }
    fn load(&mut self, _: u32, _: &mut dyn Read) -> io::Result<()> {
        Err(io::Error::other("nothing to load"))
    }
}
