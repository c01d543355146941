//! What a batch falls into, and how its rows go through the layers.
//!
//! A row is a step of decoding where it is the only one of its sequence, wants an output and follows a row that gave
//! one. All other rows belong to prompts. The two are launched apart and through different kernels, so that where weights are
//! dense, too, the bits of a prompt do not depend on how it is cut, nor those of decoding on the prompts beside it.
//!
//! Guesses go along behind the last certain row of their sequence, in a step that is recorded for that. The device samples the
//! certain row of each sequence, then the guesses that are what it has sampled, and so on: a turn for each place behind the certain
//! rows.
//!
//! Where some of the sequences that decode do not run ahead, because the host samples them or for their masks, their logits or
//! tokens are on their way while the device begins the next step of the others (see `ahead.rs`): only then the host
//! waits for them.

use std::cmp::Reverse;

use qrun_cuda::{
    Ptr, Result,
    ops::{
        attention::Tiling,
        sample::{SampleRows, SampledToken},
    },
};

use super::{
    BUCKETS, GpuDecoder,
    memory::{self, STEP_ROWS},
    step::{FEW, Guesses, Step},
};
use crate::{
    Batch, Entry, ForwardError, Gives, Output,
    forward::{certain_ends, ends},
};

/// A row of a batch, and where its output goes.
#[derive(Clone, Copy)]
pub struct Row {
    pub entry: Entry,
    pub slot: Slot,
    /// 0: certain. Else its number among the guesses of its sequence.
    guess: usize,
    /// How many guesses of the sequence there are.
    guesses: usize,
}

/// Where an output goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Nobody asked for one.
    None,
    /// This element of the tokens.
    Token(usize),
    /// This one of the rows of logits.
    Logits(usize),
}

/// The rows of a batch by what is to be done.
#[derive(Default)]
pub struct Split {
    /// Launched already: only their tokens are to be taken.
    pub ahead: Vec<Row>,
    /// One token each of the sequences that go on, and guesses behind it.
    pub decode: Vec<Row>,
    pub prompts: Vec<Row>,
}

impl Row {
    /// Whether the device samples it.
    fn is_sampled(&self) -> bool {
        matches!(self.slot, Slot::Token(_))
    }
}

impl Split {
    /// The rows that the device samples.
    pub fn sampled(&self) -> impl Iterator<Item = &Entry> {
        let all = self.ahead.iter().chain(&self.decode).chain(&self.prompts);
        all.filter(|row| row.is_sampled()).map(|row| &row.entry)
    }
}

/// Which of the steps of as many rows is that with these guesses: dense products depend on the number of sequences.
fn recorded(guesses: Guesses, sequences: usize) -> usize {
    match guesses {
        Guesses::New if sequences <= FEW => 2,
        Guesses::New => 1,
        Guesses::None | Guesses::Accepted => 0,
    }
}

/// The smallest recorded step that so many rows fit in.
pub fn bucket(rows: usize) -> usize {
    BUCKETS.iter().position(|&bucket| rows <= bucket).expect("rows are taken STEP_ROWS at a time")
}

impl GpuDecoder {
    /// Sorts the rows of a batch and makes room for what they give.
    fn split(&mut self, batch: &[Entry]) -> Split {
        // By sequence: rows that are certain, and guesses. In all, and so far.
        let mut counts = vec![[0usize; 2]; self.options.n_seq];
        let mut seen = counts.clone();
        let mut follows = vec![false; self.options.n_seq];
        for e in batch {
            counts[e.seq as usize][usize::from(e.drafted)] += 1;
            if e.drafted && (e.output != Output::Token || self.sampler.is_masked(e.seq)) {
                // The device goes on from one guess to the next, and what may come behind one nobody has said.
                self.sampler.stop(e.seq);
            }
        }
        let mut split = Split::default();
        let (mut outputs, mut logits) = (0, 0);
        for e in batch {
            let seq = e.seq as usize;
            let [certain, guesses] = counts[seq];
            if !e.drafted {
                self.sampler.follow(e, certain == 1);
            }
            seen[seq][usize::from(e.drafted)] += 1;
            let [rows, guess] = seen[seq];
            let may = if e.drafted { follows[seq] } else { rows == certain };
            let sampled = e.output == Output::Token && may && self.sampler.takes(e.seq);
            follows[seq] = sampled;
            let slot = match e.output {
                Output::None => Slot::None,
                _ if sampled => Slot::Token(outputs),
                _ => Slot::Logits(logits),
            };
            outputs += usize::from(slot != Slot::None);
            logits += usize::from(matches!(slot, Slot::Logits(_)));
            let decodes = certain == 1 && self.decoding[seq] && e.output != Output::None;
            let part = if sampled && self.sampler.is_ahead(e.seq) {
                &mut split.ahead
            } else if decodes || guesses > 0 && rows == certain {
                &mut split.decode
            } else {
                &mut split.prompts
            };
            part.push(Row { entry: *e, slot, guess, guesses });
        }
        // Rows of a sequence follow each other: recurrent layers take them in turn.
        split.prompts.sort_by_key(|row| row.entry.seq);
        split.decode.sort_by_key(|row| row.entry.seq);
        self.tokens.clear();
        self.tokens.resize(outputs, None);
        self.logits.clear();
        self.logits.resize(logits * self.width(), 0.0);
        split
    }

    /// Runs a batch that was checked.
    ///
    /// # Errors
    /// [`ForwardError::Cancelled`], [`ForwardError::Pages`], or the device's. The caches are as before.
    pub(super) fn run(&mut self, batch: &Batch) -> std::result::Result<(), ForwardError> {
        if (batch.cancelled)() {
            return Err(ForwardError::Cancelled);
        }
        batch.entries.iter().for_each(|e| self.drafted.forget(e.seq));
        let split = self.split(batch.entries);
        self.forget_states();
        if let Err(error) = self.launches(batch, &split) {
            for row in split.prompts.iter().chain(&split.decode) {
                self.pages.tables.abandon(row.entry.seq as usize);
                // Where this fails, too, so does the next step.
                let _ = self.bring_states_back(row.entry.seq as usize);
                // What was sampled cannot be taken back.
                if let Slot::Token(at) = row.slot
                    && self.tokens[at].is_some()
                {
                    self.sampler.stop(row.entry.seq);
                }
            }
            return Err(error);
        }
        for (seq, end) in certain_ends(batch.entries) {
            self.pages.tables.commit(seq, end);
        }
        self.drafted.note(&split.decode);
        for e in batch.entries {
            // Texts of which hidden states are wanted are prompts, however they are cut.
            self.decoding[e.seq as usize] = e.output != Output::None && self.options.gives == Gives::Logits;
        }
        Ok(())
    }

    fn launches(&mut self, batch: &Batch, split: &Split) -> std::result::Result<(), ForwardError> {
        let chunk = self.options.n_ubatch.min(memory::rows(&self.options));
        let n_launches = split.prompts.len().div_ceil(chunk) + split.decode.len().div_ceil(STEP_ROWS);
        if n_launches > 1 && self.pages.tables.has_states() {
            let last = split.decode.len().saturating_sub(1) / STEP_ROWS * STEP_ROWS;
            let rows = split.prompts.iter().chain(&split.decode[..last]);
            self.keep_states(rows.map(|row| row.entry.seq))?;
        }
        for chunk in self.chunks(&split.prompts, chunk) {
            // From the first sampled token on the step goes to its end.
            if self.tokens.iter().all(Option::is_none) && (batch.cancelled)() {
                return Err(ForwardError::Cancelled);
            }
            let wanted = self.launch(chunk, Tiling::Prompt)?;
            // An error of a kernel belongs to this call.
            self.stream.synchronize()?;
            self.collect(&wanted)?;
        }
        let mut wanted = Vec::new();
        for group in split.decode.chunks(STEP_ROWS) {
            self.collect(&wanted)?;
            wanted = self.launch(group, Tiling::Rows)?;
        }
        // Rows that run ahead from here on have to be fed their tokens.
        if wanted.iter().any(|(_, row)| row.is_sampled() && !self.sampler.is_masked(row.entry.seq)) {
            self.collect(&wanted)?;
            wanted.clear();
        }
        self.advance(split)?;
        Ok(self.collect(&wanted)?)
    }

    /// Rows of prompts as they go through the layers together, at most so many; a text that is seen whole stays whole.
    fn chunks<'a>(&self, prompts: &'a [Row], most: usize) -> Vec<&'a [Row]> {
        if !self.config.is_bidirectional() {
            return prompts.chunks(most).collect();
        }
        let (mut chunks, mut rest) = (Vec::new(), prompts);
        while !rest.is_empty() {
            let mut texts = rest.chunk_by(|a, b| a.entry.seq == b.entry.seq).map(<[Row]>::len);
            let first = texts.next().unwrap_or(0);
            let fits = |sum: &mut usize, n| {
                *sum += n;
                (*sum <= most).then_some(*sum)
            };
            let n = texts.scan(first, fits).last().unwrap_or(first);
            let (chunk, behind) = rest.split_at(n);
            chunks.push(chunk);
            rest = behind;
        }
        chunks
    }

    /// Queues some rows; returns those whose outputs are to be collected still, each with its place in the launch.
    fn launch(&mut self, rows: &[Row], tiling: Tiling) -> std::result::Result<Vec<(usize, Row)>, ForwardError> {
        self.reserve(rows.iter().map(|row| &row.entry))?;
        // What is recorded cannot be listened to.
        let bucket = (tiling == Tiling::Rows && self.probe.is_none()).then(|| bucket(rows.len()));
        let count = bucket.map_or(rows.len(), |b| BUCKETS[b]);
        let sequences = rows.iter().filter(|row| row.guess == 0).count();
        let guesses = if sequences < rows.len() { Guesses::New } else { Guesses::None };
        describe(self.staging.rows.as_mut_slice(), rows.iter().map(|row| Some(row.entry)));
        // SAFETY: the part of the arena for the rows has the same length (see `decoder`).
        unsafe { self.stream.copy_in(self.memory.rows.token, &self.staging.rows, self.staging.rows.len())? };
        self.describe_ends(rows)?;
        self.look_up_per_layer(rows.iter().map(|row| row.entry.token), count)?;
        match bucket {
            Some(bucket) => {
                let kind = recorded(guesses, sequences);
                let mut step = std::mem::take(&mut self.steps[bucket][kind]);
                let launched =
                    step.launch(&self.stream, |_| self.guessing_step(count, tiling, guesses, sequences).layers());
                self.steps[bucket][kind] = step;
                launched?;
            }
            None => self.guessing_step(count, tiling, guesses, sequences).layers()?,
        }
        let mut marked: Vec<(usize, Row)> =
            rows.iter().copied().enumerate().filter(|(_, row)| row.slot != Slot::None).collect();
        // First those whose logits are copied. The others by turns of the sampler; who has the most guesses comes first in each, so
        // that all who are in a turn have the same place in the one before.
        marked.sort_by_key(|(_, row)| (row.is_sampled(), row.guess, Reverse(row.guesses)));
        let mut wanted = Vec::new();
        for turn in marked.chunks(memory::output_rows(&self.options)) {
            self.collect(&wanted)?;
            self.outputs(turn, self.guessing_step(count, tiling, guesses, sequences).narrow)?;
            wanted = turn.to_vec();
        }
        for (seq, end) in ends(rows.iter().map(|row| &row.entry).filter(|e| !e.drafted)) {
            self.pages.tables.advance(seq, end);
        }
        Ok(wanted)
    }

    /// A step of rows that have guesses among them, or none. As many sequences take the same kernels with guesses as without.
    fn guessing_step(&self, count: usize, tiling: Tiling, guesses: Guesses, sequences: usize) -> Step<'_> {
        let step = self.step_of(count, tiling);
        Step { guesses, narrow: if guesses == Guesses::None { step.narrow } else { sequences <= FEW }, ..step }
    }

    /// The lengths of the texts that rows are of, where tokens see those behind them.
    fn describe_ends(&mut self, rows: &[Row]) -> Result<()> {
        if !self.config.is_bidirectional() {
            return Ok(());
        }
        let ends = rows.chunk_by(|a, b| a.entry.seq == b.entry.seq);
        let ends = ends.flat_map(|text| std::iter::repeat_n(text.len() as i32, text.len()));
        self.staging.ends.as_mut_slice().iter_mut().zip(ends).for_each(|(end, len)| *end = len);
        // SAFETY: the part of the arena for them has the same length (see `decoder`).
        unsafe { self.stream.copy_in(self.memory.rows.end, &self.staging.ends, self.staging.ends.len()) }
    }

    /// Queues the head and the sampler for some rows, each with its place in the launch; those that the device samples come last.
    fn outputs(&mut self, wanted: &[(usize, Row)], narrow: bool) -> Result<()> {
        let count = wanted.len();
        let n = memory::output_rows(&self.options);
        let (index, rows) = self.staging.marked.as_mut_slice().split_at_mut(n);
        let (rows, masked) = rows.split_at_mut(3 * n);
        index.iter_mut().zip(wanted).for_each(|(index, (i, _))| *index = *i as i32);
        // Where logits are wanted the row is an idle one to the sampler.
        describe(rows, wanted.iter().map(|(_, row)| row.is_sampled().then_some(row.entry)));
        let sampled = wanted.iter().enumerate().filter(|(_, (_, row))| row.is_sampled());
        let masks = self.sampler.stage_masks(sampled.map(|(i, (_, row))| (i, row.entry.seq)), masked);
        let memory = &self.memory;
        // SAFETY: the part of the arena for marked rows has the same length (see `decoder`).
        unsafe { self.stream.copy_in(memory.marked, &self.staging.marked, self.staging.marked.len())? };
        Step { narrow, ..self.step_of(count, Tiling::Rows) }.head(memory.marked, count)?;
        let logits = memory.activations.logits;
        self.sampler.mask(&self.stream, logits, memory.masked, masks)?;
        let sampled = &wanted[wanted.partition_point(|(_, row)| !row.is_sampled())..];
        let (n_sampled, mut from) = (sampled.len(), count - sampled.len());
        let steps = self.sampler.steps(sampled.iter().map(|(_, row)| row.entry.seq));
        let mut drawn = Ptr::NULL;
        for turn in sampled.chunk_by(|(_, a), (_, b)| a.guess == b.guess) {
            let [token, pos, seq] =
                [memory.sampled.token, memory.sampled.pos, memory.sampled.seq].map(|at| at.add(from));
            let (logits, n) = (logits.add(from * self.width()), turn.len());
            let rows = SampleRows { logits, token, pos, seq, drawn, rows: n as u32 };
            self.sampler.sample(&self.stream, &rows, steps)?;
            turn.iter().filter(|(_, row)| row.guess == 0).for_each(|(_, row)| self.sampler.launch(row.entry.seq));
            (drawn, from) = (token, from + n);
        }
        if n_sampled < count {
            let len = (count - n_sampled) * self.width();
            // SAFETY: the arena has outputs of at least `memory::output_rows`, and no more are wanted at once (see `decoder`).
            unsafe { self.stream.copy_out(&mut self.staging.logits, logits, len)? };
        }
        Ok(())
    }

    /// Waits for the logits and tokens of rows that were queued last.
    fn collect(&mut self, wanted: &[(usize, Row)]) -> Result<()> {
        let (width, mut missed) = (self.width(), Vec::new());
        for (i, (_, row)) in wanted.iter().enumerate() {
            let seq = row.entry.seq;
            match row.slot {
                Slot::None => {}
                Slot::Token(to) if row.guess > 0 => {
                    if missed.contains(&seq) || self.sampler.next(seq) != Some(row.entry.token) {
                        missed.push(seq);
                        self.tokens[to] = Some(SampledToken::NOT_REACHED);
                        continue;
                    }
                    self.drafted.reach(seq);
                    self.sampler.launch(seq);
                    self.give(seq, to, self.sampler.launched(seq))?;
                }
                Slot::Logits(to) => {
                    // Waits for the copy, not for what runs ahead behind it.
                    let from = &self.staging.logits[i * width..(i + 1) * width];
                    self.logits[to * width..(to + 1) * width].copy_from_slice(from);
                }
                Slot::Token(to) => {
                    self.give(seq, to, self.sampler.launched(seq))?;
                }
            }
        }
        // A wait for a copy says nothing of errors; the stream does.
        if wanted.iter().any(|(_, row)| matches!(row.slot, Slot::Logits(_))) {
            self.stream.is_idle()?;
        }
        Ok(())
    }

    /// Elements of what a row gives.
    fn width(&self) -> usize {
        memory::given(&self.config, &self.options)
    }

    /// Puts a token that the device samples where the row's output belongs, once it is there.
    pub(super) fn give(&mut self, seq: u32, to: usize, number: u32) -> Result<()> {
        let token = self.sampler.wait(&self.stream, seq, number)?;
        self.sampler.sampled(seq, &token);
        self.tokens[to] = Some(token);
        Ok(())
    }
}

/// Writes what the rows of a launch are, `[token, position, sequence][rows]`; those beyond `entries` are idle.
pub fn describe(fields: &mut [i32], entries: impl Iterator<Item = Option<Entry>>) {
    let rows = fields.len() / 3;
    for (i, e) in entries.chain(std::iter::repeat(None)).take(rows).enumerate() {
        fields[i] = e.map_or(0, |e| e.token as i32);
        fields[rows + i] = e.map_or(0, |e| e.pos as i32);
        fields[2 * rows + i] = e.map_or(-1, |e| e.seq as i32);
    }
}
