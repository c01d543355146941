//! Tokens chosen on the device, one step ahead of the host.

use qrun_cuda::{
    DeviceError, LazyGraph, Ptr, Result, Stream,
    ops::attention::Tiling,
    ops::sample::{SampleRows, SampleShape, SampleStart, SampleState, SampleSteps, SampledToken, Status},
};

use super::{GpuDecoder, memory::Memory};
use crate::{Config, Entry, ForwardError, Options, Output, SamplingRequest};

/// Biased tokens of a sequence that the device keeps; more than these are left to the host.
const BIASES: usize = 4096;
/// Steps that are queued beyond the one that is waited for.
const AHEAD: u32 = 1;
/// Looks at the ring between two questions to the driver, whether it still works.
const POLLS_PER_QUERY: u32 = 20_000;

/// What the device needs to draw: room for a state per sequence.
pub fn shape(c: &Config, o: &Options) -> SampleShape {
    SampleShape { sequences: o.n_seq, vocab: c.n_vocab, history: o.n_ctx, biases: BIASES }
}

/// Sampling: the state on the device, the recorded steps, and the sequence that is being drawn.
pub struct DeviceSampler {
    steps: [LazyGraph; 2],
    state: SampleState,
    /// Steps drawn of each sequence since the state was made.
    drawn: Vec<u32>,
    run: Option<Run>,
}

/// A sequence that is being drawn.
struct Run {
    seq: usize,
    steps: SampleSteps,
    /// Tokens in the cache before the first step.
    start: usize,
    launched: u32,
    taken: u32,
    /// The token that the device has drawn last, and feeds itself.
    last: Option<u32>,
}

impl DeviceSampler {
    pub fn new(stream: &Stream, memory: &Memory, shape: SampleShape) -> Result<Self> {
        let state = SampleState::new(stream, shape, memory.sampling)?;
        Ok(Self { steps: Default::default(), state, drawn: vec![0; shape.sequences], run: None })
    }
}

impl GpuDecoder {
    pub(super) fn begin(&mut self, seq: u32, drawing: &SamplingRequest) -> std::result::Result<bool, ForwardError> {
        self.end()?;
        let (seq, shape) = (seq as usize, shape(&self.config, &self.options));
        let window = drawing.sampling.window;
        let recent = if window < 0 { drawing.history.len() } else { drawing.history.len().min(window as usize) };
        // A window over everything grows by each token drawn.
        let most = if window < 0 { self.options.n_ctx } else { recent };
        if seq >= shape.sequences || !shape.holds(window, most, drawing.bias.len()) {
            return Ok(false);
        }
        let start = SampleStart { sampling: drawing.sampling, biases: &drawing.bias, history: &drawing.history };
        self.drawer.state.restart(&self.stream, seq, &start)?;
        let steps = if self.drawer.state.is_greedy(seq) { SampleSteps::Greedy } else { SampleSteps::All };
        let start = self.sequences.len(seq);
        self.drawer.run = Some(Run { seq, steps, start, launched: 0, taken: 0, last: None });
        Ok(true)
    }

    pub(super) fn next(&mut self, token: u32) -> std::result::Result<Option<SampledToken>, ForwardError> {
        let Some(run) = &self.drawer.run else { return Ok(None) };
        let (seq, pos) = (run.seq, run.start + run.taken as usize);
        match run.last {
            None => {
                let entry = Entry { token, pos: pos as u32, seq: seq as u32, output: Output::Logits };
                self.check(&[entry])?;
                self.describe(&[entry], 1)?;
            }
            Some(last) => {
                assert_eq!(token, last, "the token that was drawn is the next one to be fed");
                if pos >= self.options.n_ctx {
                    return Err(ForwardError::ContextFull { pos: pos as u32, n_ctx: self.options.n_ctx });
                }
            }
        }
        self.launch()?;
        let drawn = self.wait()?;
        let run = self.drawer.run.as_mut().expect("looked at above");
        run.taken += 1;
        self.drawer.drawn[seq] += 1;
        self.sequences.set_len(seq, pos + 1);
        run.last = (drawn.status() == Status::Sampled).then(|| drawn.token());
        Ok(Some(drawn))
    }

    /// Waits for the steps that ran ahead and forgets them.
    pub(super) fn end(&mut self) -> std::result::Result<(), ForwardError> {
        let Some(run) = self.drawer.run.take() else { return Ok(()) };
        self.drawer.drawn[run.seq] += run.launched - run.taken;
        self.stream.synchronize()?;
        Ok(())
    }

    /// A step that draws: layers, head, sampler.
    fn drawing_step(&self, stream: &Stream, steps: SampleSteps) -> Result<()> {
        let (step, rows) = (self.launches(1, Tiling::Rows), &self.memory.rows);
        let logits = self.memory.activations.logits;
        let sampled = SampleRows { logits, token: rows.token, pos: rows.pos, seq: rows.seq, rows: 1 };
        step.layers()?;
        step.head(Ptr::NULL, 1)?;
        self.drawer.state.sample(stream, &sampled, steps)
    }

    /// Queues steps up to [`AHEAD`] beyond the one that is wanted now, within the context.
    fn launch(&mut self) -> Result<()> {
        let run = self.drawer.run.as_ref().expect("drawing has begun");
        let (seq, start, steps, taken) = (run.seq, run.start, run.steps, run.taken);
        let room = (self.options.n_ctx - start) as u32;
        for launched in run.launched..(taken + 1 + AHEAD).min(room) {
            let mut step = std::mem::take(&mut self.drawer.steps[steps as usize]);
            let queued = step.launch(&self.stream, |stream| self.drawing_step(stream, steps));
            self.drawer.steps[steps as usize] = step;
            queued?;
            self.sequences.note_written(seq, start + launched as usize + 1);
            self.drawer.run.as_mut().expect("looked at above").launched = launched + 1;
        }
        Ok(())
    }

    /// Waits for the next token without asking the driver, except now and then whether it still works.
    fn wait(&self) -> Result<SampledToken> {
        let run = self.drawer.run.as_ref().expect("drawing has begun");
        let number = self.drawer.drawn[run.seq] + 1;
        loop {
            for _ in 0..POLLS_PER_QUERY {
                if let Some(drawn) = self.drawer.state.drawn(run.seq, number) {
                    return Ok(drawn);
                }
                std::hint::spin_loop();
            }
            // Asked before the last look: what was finished by then is in the ring.
            let idle = self.stream.is_idle()?;
            if let Some(drawn) = self.drawer.state.drawn(run.seq, number) {
                return Ok(drawn);
            }
            if idle {
                let text = format!("step {number} of sequence {} has ended without a token", run.seq);
                return Err(DeviceError::Driver { call: "drawing".into(), text });
            }
        }
    }
}
