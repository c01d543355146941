//! The draft head on the device (see `cpu/draft.rs` for what it is).
//!
//! A step leaves keys and values of the block behind the layers, and the hidden state of each sequence where a recurrent layer has its
//! state. A draft is some steps of the head alone, one for each place behind the next token: each leaves the likeliest token
//! where the next one finds it, so that they follow each other without the host, which reads all of them at the end.

use qrun_cuda::{
    LazyGraph, Ptr, Result, Stream,
    ops::{
        attention::Tiling,
        embed,
        mamba::{self, GroupNorm},
        norm::NormParams,
        recurrent::{self, JoinHidden},
        rope_kv::{self, RopeKv},
        sample::{SampleRows, SampleState, SampleSteps, Status},
    },
};

use super::{
    BUCKETS, GpuDecoder,
    ahead::IDLE,
    batch::bucket,
    memory::{DraftHead, Layer, Memory, Operand, draft_shape},
    sampling::wait,
    step::{Residual, Step, segment},
};
use crate::{
    Config, DraftRequest, Forward, Options,
    forward::likeliest,
    layer::HeadNorm,
    tensors::Role::{AttnK, AttnKNorm, AttnNorm, AttnV},
};

/// The steps of a draft head, and what chooses its guesses.
pub struct Drafts {
    /// By number of rows; the first one of a draft, and those behind it.
    graphs: [[LazyGraph; 2]; BUCKETS.len()],
    state: SampleState,
    /// Launches that have chosen a guess of each sequence since load.
    launched: Vec<u32>,
}

impl Drafts {
    /// Those of a model's head; `None` where it has none.
    ///
    /// # Errors
    /// The driver's, as of [`SampleState::new`].
    pub fn new(stream: &Stream, memory: &Memory, c: &Config, o: &Options) -> Result<Option<Self>> {
        let Some(head) = &memory.draft_head else { return Ok(None) };
        // SAFETY: parts of the arena that `Memory::lay_out` took for these, for this state alone (see `decoder`).
        let state = unsafe {
            stream.fill(head.rows.seq, IDLE, BUCKETS[BUCKETS.len() - 1])?;
            SampleState::new(stream, draft_shape(c, o), head.sampling)?
        };
        Ok(Some(Self { graphs: Default::default(), state, launched: vec![0; o.n_seq] }))
    }
}

/// A sequence in a draft.
struct Drafting {
    /// Which request it is, and of which sequence.
    request: usize,
    seq: u32,
    /// The number of the guess before its first one.
    number: u32,
    /// Guesses that are wanted of it still, and those that it has.
    left: usize,
    taken: usize,
}

impl Step<'_> {
    /// The block of the draft head: its number, and its weights.
    fn draft_block(&self) -> (usize, &Layer) {
        let il = self.m.layers.len() - 1;
        (il, &self.m.layers[il])
    }

    /// Keys and values of the draft head for all rows, and their hidden states, of what the layers have left.
    ///
    /// # Errors
    /// The driver refuses a launch, or an earlier one has failed.
    pub(super) fn feed_draft_head(&self, residual: Residual) -> Result<()> {
        let Some(head) = &self.m.draft_head else { return Ok(()) };
        let a = &self.m.activations;
        // The model's head makes the same sum once more.
        let residual = Residual { x_out: Ptr::NULL, ..residual };
        let norm = NormParams { y: head.hidden, ..self.norm_of(residual, self.m.output_norm) };
        self.launch_norm(self.rows, self.norm_kind(&norm), &norm)?;
        self.join(head, head.hidden, Ptr::NULL, head.x)?;
        let (il, block) = self.draft_block();
        let (l, [keys, values]) = (&self.c.layers[il], block.matrices([AttnK, AttnV]));
        let products = [segment(&keys, a.k), segment(&values, a.v)];
        let stream = Residual { x_out: Ptr::NULL, ..Residual::stream(head.x) };
        let norm = self.norm_of(stream, block.norm(AttnNorm));
        self.norm(&norm, &[keys, values])?;
        self.matmul(self.product(&a.normed, self.c.n_embd), &products)?;
        let mut k_norm = block.vector(AttnKNorm);
        if l.qk_norm == HeadNorm::Whole {
            self.norm_in_place(a.k, k_norm, l.kv_dim())?;
            k_norm = Ptr::NULL;
        }
        let v_norm = i32::from(l.v_norm);
        let turn = self.turn(il, block);
        let turn = RopeKv { n_head: 0, q_step: turn.head_dim, k: a.k, v: a.v, k_norm, v_norm, ..turn };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { rope_kv::rope_kv(self.stream, self.rows as u32, &turn) }
    }

    /// Takes hidden states of guesses that were right.
    ///
    /// # Errors
    /// The driver refuses a launch, or an earlier one has failed.
    pub(super) fn accept_hidden(&self) -> Result<()> {
        self.m.draft_head.as_ref().map_or(Ok(()), |head| self.side_by_side(head, head.hidden, Ptr::NULL))
    }

    /// Embeddings beside the hidden states before them: `hidden` move the states of sequences, `before` stand in their place.
    fn side_by_side(&self, head: &DraftHead, hidden: Ptr<f32>, before: Ptr<f32>) -> Result<()> {
        let states = &self.m.layers[self.draft_block().0 - 1];
        let (embedding, y) = (head.x, head.joined.values);
        let n = self.c.n_embd as i32;
        let p = JoinHidden { state: self.states(states), embedding, hidden, before, y, n, pad: 0 };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { recurrent::join_hidden(self.stream, &p) }
    }

    /// From tokens and hidden states to what the block takes, in `y`.
    fn join(&self, head: &DraftHead, hidden: Ptr<f32>, before: Ptr<f32>, y: Ptr<f32>) -> Result<()> {
        let n = self.c.n_embd;
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { embed::embed(self.stream, &self.embeddings(&head.token_embd, head.x))? };
        self.side_by_side(head, hidden, before)?;
        let (values, image) = self.wanted(&head.joined, &[head.eh_proj]);
        let (x, weight, seq, eps) = (head.joined.values, head.norms, self.at.seq, self.c.norm_eps);
        let norm = GroupNorm { x, weight, seq, y: values, image, n: n as i32, eps };
        // SAFETY: as above; a thread writes a number where it has read it.
        unsafe { mamba::group_norm(self.stream, [self.rows, 2], &norm)? };
        self.matmul(self.product(&head.joined, 2 * n), &[segment(&head.eh_proj, y)])
    }

    /// The logits behind each row, and the head's own hidden states. The first step of a draft begins with those of sequences.
    fn guess(&self, head: &DraftHead, first: bool) -> Result<()> {
        let (il, block) = self.draft_block();
        let [x, x_out] = self.places_of_stream(&self.c.layers[il..]);
        self.join(head, Ptr::NULL, if first { Ptr::NULL } else { head.own_hidden }, x)?;
        let residual = self.layer(il, block, Residual { x_out, ..Residual::stream(x) })?;
        let of_head = Operand { values: head.own_hidden, image: self.m.activations.normed.image };
        let (_, image) = self.wanted(&of_head, &[head.output]);
        let norm = NormParams { y: of_head.values, image, ..self.norm_of(residual, head.norm) };
        self.launch_norm(self.rows, self.norm_kind(&norm), &norm)?;
        let logits = self.m.activations.logits;
        self.matmul(self.product(&of_head, self.c.n_embd), &[segment(&head.output, logits)])?;
        self.tap(None, "draft_output", logits, self.c.n_vocab)
    }
}

impl GpuDecoder {
    /// See [`crate::Forward::draft`]. A token less likely than `least` ends a draft, for which the host has to see the logits.
    ///
    /// # Errors
    /// The driver refuses a launch, or an earlier one has failed.
    pub(super) fn guess_further(&mut self, wanted: &[DraftRequest], least: f32) -> Result<Vec<Vec<u32>>> {
        let mut guesses = vec![Vec::new(); wanted.len()];
        let Some(mut drafts) = self.drafts.take() else { return Ok(guesses) };
        let found = self.draft(&mut drafts, wanted, least, &mut guesses);
        self.drafts = Some(drafts);
        found.map(|()| guesses)
    }

    fn draft(
        &mut self,
        drafts: &mut Drafts,
        wanted: &[DraftRequest],
        least: f32,
        guesses: &mut [Vec<u32>],
    ) -> Result<()> {
        let mut rows = self.begin_drafts(drafts, wanted)?;
        let count = rows.len();
        for turn in 0.. {
            if rows.iter().all(|row| row.left == 0) {
                break;
            }
            self.launch_draft(drafts, bucket(count), turn == 0)?;
            let improbable = if least > 0.0 { self.improbable(count, least)? } else { Vec::new() };
            for (i, row) in rows.iter_mut().enumerate().filter(|(_, row)| row.left > 0) {
                drafts.launched[row.seq as usize] += 1;
                let goes_on = !improbable.contains(&i);
                row.taken += usize::from(goes_on);
                row.left = if goes_on { row.left - 1 } else { 0 };
                if row.left == 0 {
                    self.fill_draft_row(i, [0, 0, IDLE])?;
                }
            }
        }
        for row in rows {
            for number in (row.number + 1..).take(row.taken) {
                let sampled = wait(&drafts.state, &self.stream, row.seq, number)?;
                if sampled.status() != Status::Sampled {
                    break;
                }
                guesses[row.request].push(sampled.token());
            }
        }
        Ok(())
    }

    /// Writes a row for each request whose guesses fit, one of each sequence, and makes room for what the head keeps of them.
    fn begin_drafts(&mut self, drafts: &Drafts, wanted: &[DraftRequest]) -> Result<Vec<Drafting>> {
        let mut rows: Vec<Drafting> = Vec::new();
        for (request, &DraftRequest { seq, token, most }) in wanted.iter().enumerate() {
            let pos = self.pages.tables.len(seq as usize);
            let fits = (1..=self.n_draft()).contains(&most) && pos > 0 && pos + most <= self.n_ctx();
            let known = (token as usize) < self.n_vocab() && rows.iter().all(|row| row.seq != seq);
            // What was guessed before is written over.
            self.drafted.forget(seq);
            if fits && known && self.reserve_ahead(&[(seq as usize, pos + most)])? {
                self.fill_draft_row(rows.len(), [token as i32, pos as i32, seq as i32])?;
                let number = drafts.launched[seq as usize];
                rows.push(Drafting { request, seq, number, left: most, taken: 0 });
            }
        }
        Ok(rows)
    }

    /// Says what a row of the next step of a draft is: token, position, sequence.
    fn fill_draft_row(&self, row: usize, fields: [i32; 3]) -> Result<()> {
        let Some(head) = &self.memory.draft_head else { return Ok(()) };
        // SAFETY: there is at most a row per sequence, for which the arena has room (see `decoder`).
        unsafe { self.fill_row(head.rows, row, fields) }
    }

    fn launch_draft(&self, drafts: &mut Drafts, bucket: usize, first: bool) -> Result<()> {
        let Some(head) = &self.memory.draft_head else { return Ok(()) };
        let at = head.rows;
        let step = Step { at, ..self.step_of(BUCKETS[bucket], Tiling::Rows) };
        let (logits, rows) = (self.memory.activations.logits, BUCKETS[bucket] as u32);
        let rows = SampleRows { logits, token: at.token, pos: at.pos, seq: at.seq, drawn: Ptr::NULL, rows };
        let state = &drafts.state;
        let work = |_: &_| {
            step.guess(head, first)?;
            // SAFETY: as for `Drafts::new`; the rows are parts of the arena.
            unsafe { state.sample(&self.stream, &rows, SampleSteps::Greedy) }
        };
        // What is recorded cannot be listened to.
        if self.probe.is_some() {
            return work(&self.stream);
        }
        drafts.graphs[bucket][usize::from(!first)].launch(&self.stream, work)
    }

    /// Rows of the last step of a draft whose likeliest token is less likely than `least`.
    fn improbable(&mut self, count: usize, least: f32) -> Result<Vec<usize>> {
        let n_vocab = self.config.n_vocab;
        let logits = self.memory.activations.logits;
        // SAFETY: the arena has logits of a row per sequence, and so has the page-locked memory (see `decoder`).
        unsafe { self.stream.copy_out(&mut self.staging.logits, logits, count * n_vocab)? };
        let rows = self.staging.logits.chunks_exact(n_vocab).take(count).enumerate();
        let improbable = rows.filter(|(_, row)| likeliest(row, least).is_none()).map(|(i, _)| i);
        Ok(improbable.collect())
    }
}
