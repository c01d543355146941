//! Which sequences the device samples, and how far it has come with each.

use std::time::Instant;

use qrun_cuda::{
    DeviceError, Ptr, Result, Stream,
    ops::sample::{SampleRows, SampleShape, SampleStart, SampleState, SampleSteps, SampledToken, Status},
};

use super::{masks::Masks, memory::Memory};
use crate::{Entry, Output, SamplingRequest};

/// Looks at the ring between two questions to the driver, whether it still works.
const POLLS_PER_QUERY: u32 = 20_000;

/// The sampler's state on the device, and what the host knows of it.
pub struct DeviceSampler {
    state: SampleState,
    shape: SampleShape,
    sequences: Vec<Sampled>,
    masks: Masks,
}

/// A sequence, as far as its tokens are sampled on the device.
#[derive(Clone, Copy, Default)]
struct Sampled {
    next: Next,
    /// Launches that have sampled it since load: the number that the last one gives its token in the ring.
    launched: u32,
    /// Whether the last of them ran ahead, and no batch has asked for its row yet.
    ahead: bool,
}

/// What a sequence has to be fed for the device to go on sampling it.
#[derive(Clone, Copy, Default)]
enum Next {
    /// The host samples this sequence.
    #[default]
    Host,
    /// Anything: it is a prompt, of which the device has sampled nothing yet.
    Prompt,
    /// This token alone, which the device sampled last.
    Token(u32),
}

impl DeviceSampler {
    /// The state of `shape.sequences` sequences, all of which the host samples at first.
    ///
    /// # Errors
    /// The driver's, as of [`SampleState::new`].
    pub fn new(stream: &Stream, memory: &Memory, shape: SampleShape) -> Result<Self> {
        // SAFETY: parts of the arena that `Memory::lay_out` took for this shape, for this state alone (see `decoder`).
        let state = unsafe { SampleState::new(stream, shape, memory.sampling)? };
        let n = shape.sequences;
        Ok(Self { state, shape, sequences: vec![Sampled::default(); n], masks: Masks::new(n) })
    }

    /// Samples a sequence by these parameters from the next launch on; `false` where the device cannot.
    ///
    /// # Errors
    /// The driver refuses to queue the sequence's parameters, or an earlier launch has failed.
    pub fn set(&mut self, stream: &Stream, seq: u32, request: &SamplingRequest) -> Result<bool> {
        let (shape, sampling) = (self.shape, request.sampling);
        if seq as usize >= shape.sequences {
            return Ok(false);
        }
        self.stop(seq);
        let history = request.history.len();
        let recent = if sampling.window < 0 { history } else { history.min(sampling.window as usize) };
        // A window over everything grows by each token sampled.
        let most = if sampling.window < 0 { shape.history } else { recent };
        let known = request.bias.iter().all(|(token, _)| (*token as usize) < shape.vocab);
        if !known || sampling.position < recent as u64 || !shape.holds(sampling.window, most, request.bias.len()) {
            return Ok(false);
        }
        let start = SampleStart { sampling, biases: &request.bias, history: &request.history };
        // SAFETY: the decoder's stream, and its arena with what the state was given (see `decoder`).
        unsafe { self.state.restart(stream, seq as usize, &start)? };
        self.sequences[seq as usize].next = Next::Prompt;
        self.masks.begin(seq, request.masked);
        Ok(true)
    }

    /// Leaves a sequence to the host; what ran ahead of it is dropped.
    pub fn stop(&mut self, seq: u32) {
        let sampled = &mut self.sequences[seq as usize];
        (sampled.next, sampled.ahead) = (Next::Host, false);
        self.masks.begin(seq, false);
    }

    /// Leaves a sequence to the host where a batch feeds it something else than the device has sampled: the device
    /// has not seen what was chosen instead. `single`: whether the entry is the only one of its sequence.
    pub fn follow(&mut self, e: &Entry, single: bool) {
        if let Next::Token(token) = self.sequences[e.seq as usize].next
            && !(single && e.token == token && e.output == Output::Token)
        {
            self.stop(e.seq);
        }
    }

    /// Whether the device samples this sequence.
    pub fn samples(&self, seq: u32) -> bool {
        !matches!(self.sequences[seq as usize].next, Next::Host)
    }

    /// Whether the device samples the next row of this sequence. Where the mask for it has not come the host does, from here
    /// on.
    pub fn takes(&mut self, seq: u32) -> bool {
        if self.masks.misses(seq) {
            self.stop(seq);
        }
        self.samples(seq)
    }

    /// Whether the device samples this sequence from masks: what follows a token has to wait for one.
    pub fn is_masked(&self, seq: u32) -> bool {
        self.masks.wants(seq)
    }

    /// Takes the mask for the next token of a sequence.
    pub fn give_mask(&mut self, seq: u32, allowed: &[u32]) {
        self.masks.give(seq, allowed);
    }

    /// Whether the next row of this sequence ran ahead.
    pub fn is_ahead(&self, seq: u32) -> bool {
        self.sequences[seq as usize].ahead
    }

    /// The token that the device has sampled last and has to be fed next.
    pub fn next(&self, seq: u32) -> Option<u32> {
        match self.sequences[seq as usize].next {
            Next::Token(token) => Some(token),
            Next::Host | Next::Prompt => None,
        }
    }

    /// Notes that a launch samples this sequence.
    pub fn launch(&mut self, seq: u32) {
        self.sequences[seq as usize].launched += 1;
    }

    /// The number of the token of the last launch.
    pub fn launched(&self, seq: u32) -> u32 {
        self.sequences[seq as usize].launched
    }

    /// The same for a row that nobody has asked for.
    pub fn launch_ahead(&mut self, seq: u32) {
        self.sequences[seq as usize].ahead = true;
        self.launch(seq);
    }

    /// The number of the token of a row that ran ahead and is asked for now.
    pub fn take_ahead(&mut self, seq: u32) -> u32 {
        let sampled = &mut self.sequences[seq as usize];
        sampled.ahead = false;
        sampled.launched
    }

    /// What has to be launched for these sequences.
    pub fn steps(&self, mut sequences: impl Iterator<Item = u32>) -> SampleSteps {
        let greedy = sequences.all(|seq| self.state.is_greedy(seq as usize));
        if greedy { SampleSteps::Greedy } else { SampleSteps::All }
    }

    /// Gets the masks of some rows ready, each with its sequence; writes down in `masked` which of them have one, and returns how
    /// many these are.
    pub fn stage_masks(&mut self, rows: impl Iterator<Item = (usize, u32)>, masked: &mut [i32]) -> usize {
        let mut masks = 0;
        for (row, seq) in rows {
            if let Some(allowed) = self.masks.take(seq) {
                self.state.stage_mask(masks, allowed);
                masked[masks] = row as i32;
                masks += 1;
            }
        }
        masks
    }

    /// Queues the masks that were staged last, for the rows of `logits` that `masked` names: before the sampler.
    ///
    /// # Errors
    /// The driver refuses the copy or the launch, or an earlier one has failed.
    pub fn mask(&self, stream: &Stream, logits: Ptr<f32>, masked: Ptr<i32>, masks: usize) -> Result<()> {
        // SAFETY: as for `set`; both are parts of the arena, and the rows are different ones that have logits.
        unsafe { self.state.mask(stream, logits, masked, masks) }
    }

    /// Launches the sampler for some rows.
    ///
    /// # Errors
    /// The driver refuses a launch, or an earlier one has failed.
    pub fn sample(&self, stream: &Stream, rows: &SampleRows, steps: SampleSteps) -> Result<()> {
        // SAFETY: as for `set`; rows are parts of the arena with room for as many.
        unsafe { self.state.sample(stream, rows, steps) }
    }

    /// The `number`-th token of a sequence.
    ///
    /// # Errors
    /// As of [`wait`].
    pub fn wait(&self, stream: &Stream, seq: u32, number: u32) -> Result<SampledToken> {
        wait(&self.state, stream, seq, number)
    }

    /// Takes notice of what the device has sampled for a row that was asked for.
    pub fn sampled(&mut self, seq: u32, sampled: &SampledToken) {
        match sampled.status() {
            Status::Sampled => self.sequences[seq as usize].next = Next::Token(sampled.token()),
            // The device's state stays where it was: the caller has to choose.
            Status::NotFinite | Status::NoToken | Status::NotReached => self.stop(seq),
        }
    }
}

/// Waits for the `number`-th token of a sequence; now and then the driver is asked whether it still works.
///
/// # Errors
/// The driver's; a step that has ended without this token; [`DeviceError::Hung`] where it does not come to its end.
pub fn wait(state: &SampleState, stream: &Stream, seq: u32, number: u32) -> Result<SampledToken> {
    let since = Instant::now();
    loop {
        for _ in 0..POLLS_PER_QUERY {
            if let Some(sampled) = state.drawn(seq as usize, number) {
                return Ok(sampled);
            }
            std::hint::spin_loop();
        }
        // Asked before the last look: what was finished by then is in the ring.
        let idle = stream.is_idle()?;
        if let Some(sampled) = state.drawn(seq as usize, number) {
            return Ok(sampled);
        }
        if idle {
            let text = format!("step {number} of sequence {seq} has ended without a token");
            return Err(DeviceError::Driver { call: "sampling".into(), text });
        }
        stream.expect_progress(since)?;
    }
}
