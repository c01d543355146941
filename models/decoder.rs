//! The forward pass on a GPU.
//!
//! All memory is one arena that is taken at load. A step of one token per sequence is recorded once as a graph
//! and replayed for every position; tokens and positions lie in device memory. With drawing on, the graph also
//! chooses the next token and writes it where the next step reads it, so that steps follow each other without
//! the host, which reads the tokens from page-locked memory one step behind.

mod draw;
mod memory;
mod sequences;
mod snapshot;
mod step;

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use qrun_cuda::{
    Arena, ArenaLayout, DeviceError, Gpu, LazyGraph, Part, Pinned, Result, Stream,
    ops::{
        attention::{self, Tiling},
        sample::SampledToken,
    },
    upload,
};

use crate::{
    Batch, Config, Entry, Forward, ForwardError, KvType, Model, Options, Output, Progress, Rows, SamplingRequest,
    memory::Plan,
};
use draw::DeviceSampler;
use memory::{LOGIT_ROWS, Memory};
use sequences::Sequences;
use step::Step;

/// Longest head that attention has kernels for.
const MAX_HEAD_DIM: usize = 256;
/// Rows of recorded steps: a batch takes the next larger one, with idle rows.
const BUCKETS: [usize; 5] = [1, 2, 4, 8, LOGIT_ROWS];

/// A model on a GPU with its KV cache.
pub struct GpuDecoder {
    // In the order in which they are dropped: what is recorded goes before what it uses.
    steps: [LazyGraph; BUCKETS.len()],
    drawer: DeviceSampler,
    stream: Stream,
    staging: Staging,
    memory: Memory,
    arena: Arena,
    config: Config,
    options: Options,
    bytes_per_token: u64,
    sequences: Sequences,
    logits: Vec<f32>,
    /// One element per row of the last step.
    tokens: Vec<Option<SampledToken>>,
}

/// Page-locked memory on the host.
struct Staging {
    /// Tokens, positions, sequences: `[3][rows]`.
    rows: Pinned<i32>,
    marked: Pinned<i32>,
    /// `[LOGIT_ROWS][n_vocab]`.
    logits: Pinned<f32>,
}

impl GpuDecoder {
    /// Whether there are kernels for all that a model does.
    ///
    /// # Errors
    /// What there is no kernel for.
    pub fn supports(model: &Model, o: &Options) -> std::result::Result<(), String> {
        let c = &model.config;
        if c.head_dim > MAX_HEAD_DIM {
            return Err(format!("heads of {} elements; there are kernels for up to 256", c.head_dim));
        }
        if o.type_k != o.type_v || o.type_k == KvType::F32 {
            let (k, v) = (o.type_k.name(), o.type_v.name());
            return Err(format!(
                "a KV cache of {k} keys and {v} values; there are kernels for f16 or q8_0, both alike"
            ));
        }
        Ok(())
    }

    /// The device memory that a decoder takes: the sum of the parts that it will carve.
    pub fn plan(gpu: &Gpu, model: &Model, o: &Options) -> Plan {
        let mut carver = ArenaLayout::default();
        Memory::carve(&mut carver, model, o, splits(gpu, &model.config, o));
        plan_of(carver.parts(), carver.used())
    }

    /// Loads a model: takes the memory and copies the weights.
    ///
    /// # Errors
    /// The device's, too little memory among them.
    pub fn new(gpu: &Arc<Gpu>, model: &Model, o: &Options) -> Result<Self> {
        Self::load(gpu, model, o, &mut |_, _| ())
    }

    /// The same; `progress` hears of each piece that is uploaded.
    ///
    /// # Errors
    /// As [`GpuDecoder::new`].
    pub fn load(gpu: &Arc<Gpu>, model: &Model, o: &Options, progress: Progress) -> Result<Self> {
        let splits = splits(gpu, &model.config, o);
        let (arena, mut memory) = Arena::new(gpu, |carver| Memory::carve(carver, model, o, splits))?;
        let stream = Stream::new(gpu)?;
        let splits_rows = [LOGIT_ROWS, model.config.n_head];
        memory.activations.splits.clear(&stream, splits_rows[0], splits_rows[1])?;
        let uploads = std::mem::take(&mut memory.uploads);
        let sources: Vec<_> = uploads.iter().map(|(to, bytes)| (*to, &bytes[..])).collect();
        upload(gpu, &stream, &sources, progress)?;
        let c = &model.config;
        let drawer = DeviceSampler::new(&stream, &memory, draw::shape(c, o))?;
        let staging = Staging {
            rows: Pinned::new(gpu, 3 * memory::rows(o))?,
            marked: Pinned::new(gpu, LOGIT_ROWS)?,
            logits: Pinned::new(gpu, LOGIT_ROWS * c.n_vocab)?,
        };
        Ok(Self {
            steps: Default::default(),
            drawer,
            stream,
            staging,
            memory,
            arena,
            config: c.clone(),
            options: o.clone(),
            bytes_per_token: model.weights.bytes_per_token(),
            sequences: Sequences::new(c, o),
            logits: Vec::new(),
            tokens: Vec::new(),
        })
    }

    /// What lies where in device memory.
    pub fn parts(&self) -> &[Part] {
        self.arena.parts()
    }

    /// The arena: first address and bytes.
    pub fn arena(&self) -> (u64, u64) {
        (self.arena.address(), self.arena.bytes())
    }

    /// Bytes of device memory by purpose, as they were taken.
    pub fn taken(&self) -> Plan {
        plan_of(self.arena.parts(), self.arena.bytes())
    }

    fn launches(&self, rows: usize, tiling: Tiling) -> Step<'_> {
        Step { stream: &self.stream, c: &self.config, m: &self.memory, rows, tiling }
    }

    fn check(&self, batch: &[Entry]) -> std::result::Result<(), ForwardError> {
        let lens = (0..self.sequences.count()).map(|s| self.sequences.len(s) as u32);
        crate::forward::check(batch, lens.collect(), self.options.n_ctx, self.config.n_vocab)
    }

    /// Runs a chunk and appends the logits of its marked entries.
    fn chunk(&mut self, chunk: &[Entry]) -> Result<()> {
        let one_each = chunk.iter().enumerate().all(|(i, e)| !chunk[..i].iter().any(|other| other.seq == e.seq));
        let bucket = BUCKETS.iter().position(|&rows| one_each && chunk.len() <= rows);
        let rows = bucket.map_or(chunk.len(), |b| BUCKETS[b]);
        self.describe(chunk, rows)?;
        match bucket {
            Some(bucket) => {
                let mut step = std::mem::take(&mut self.steps[bucket]);
                let launched = step.launch(&self.stream, |_| self.launches(rows, Tiling::Rows).layers());
                self.steps[bucket] = step;
                launched?;
            }
            None => self.launches(rows, Tiling::Prompt).layers()?,
        }
        let marked: Vec<i32> =
            (0..chunk.len()).filter(|&i| chunk[i].output != Output::None).map(|i| i as i32).collect();
        for marked in marked.chunks(LOGIT_ROWS) {
            self.read_logits(marked, bucket.map_or(Tiling::Prompt, |_| Tiling::Rows))?;
        }
        // The staging buffers are free again, and an error of a kernel belongs to this call.
        self.stream.synchronize()?;
        for e in chunk {
            self.sequences.set_len(e.seq as usize, e.pos as usize + 1);
        }
        Ok(())
    }

    /// Tells the device what the rows of a chunk are; rows beyond it are idle.
    fn describe(&mut self, chunk: &[Entry], rows: usize) -> Result<()> {
        let all = self.staging.rows.len() / 3;
        let fields = self.staging.rows.as_mut_slice();
        for i in 0..rows {
            let e = chunk.get(i);
            fields[i] = e.map_or(0, |e| e.token as i32);
            fields[all + i] = e.map_or(0, |e| e.pos as i32);
            fields[2 * all + i] = e.map_or(-1, |e| e.seq as i32);
        }
        self.stream.copy_in(self.memory.rows.token, &self.staging.rows, 3 * all)
    }

    fn read_logits(&mut self, marked: &[i32], tiling: Tiling) -> Result<()> {
        let n = marked.len() * self.config.n_vocab;
        self.staging.marked.as_mut_slice()[..marked.len()].copy_from_slice(marked);
        self.stream.copy_in(self.memory.rows.marked, &self.staging.marked, marked.len())?;
        self.launches(marked.len(), tiling).head(self.memory.rows.marked, marked.len())?;
        self.stream.copy_out(&mut self.staging.logits, self.memory.activations.logits, n)?;
        self.stream.synchronize()?;
        self.logits.extend_from_slice(&self.staging.logits[..n]);
        Ok(())
    }
}

/// Splits of the context in attention: enough blocks to fill the device when one token is decoded.
fn splits(gpu: &Gpu, c: &Config, o: &Options) -> usize {
    attention::splits(gpu.properties().multiprocessors as usize, c.n_head_kv, o.n_ctx)
}

/// Bytes by the purposes that the names begin with.
fn plan_of(parts: &[Part], total: u64) -> Plan {
    let of = |purpose: &str| parts.iter().filter(|p| p.name.starts_with(purpose)).map(|p| p.bytes).sum::<u64>();
    let (weights, kv) = (of("weights/"), of("kv/"));
    // Padding between parts counts as activations, so that the sum is what is allocated.
    Plan { weights, kv, kv_window: of("kv/window"), activations: total - weights - kv }
}

impl Forward for GpuDecoder {
    fn n_vocab(&self) -> usize {
        self.config.n_vocab
    }

    fn n_ctx(&self) -> usize {
        self.options.n_ctx
    }

    fn n_seq(&self) -> usize {
        self.sequences.count()
    }

    fn step(&mut self, batch: &Batch) -> std::result::Result<Rows<'_>, ForwardError> {
        let batch = batch.entries;
        self.check(batch)?;
        self.tokens.clear();
        self.tokens.resize(batch.iter().filter(|e| e.output != Output::None).count(), None);
        self.end_drawing()?;
        self.logits.clear();
        let lens: Vec<usize> = (0..self.sequences.count()).map(|s| self.sequences.len(s)).collect();
        for chunk in batch.chunks(self.options.n_ubatch.min(memory::rows(&self.options))) {
            if let Err(error) = self.chunk(chunk) {
                for (seq, &len) in lens.iter().enumerate() {
                    self.sequences.set_len(seq, len);
                }
                return Err(error.into());
            }
        }
        Ok(Rows::new(self.config.n_vocab, &self.tokens, &self.logits))
    }

    fn rows(&self) -> Rows<'_> {
        Rows::new(self.config.n_vocab, &self.tokens, &self.logits)
    }

    fn begin_drawing(&mut self, seq: u32, drawing: &SamplingRequest) -> std::result::Result<bool, ForwardError> {
        self.begin(seq, drawing)
    }

    fn draw(&mut self, token: u32) -> std::result::Result<Option<SampledToken>, ForwardError> {
        self.next(token)
    }

    fn end_drawing(&mut self) -> std::result::Result<(), ForwardError> {
        self.end()
    }

    fn len(&self, seq: u32) -> u32 {
        self.sequences.len(seq as usize) as u32
    }

    fn rewind(&mut self, seq: u32, pos: u32) -> u32 {
        self.sequences.rewind(seq as usize, pos as usize) as u32
    }

    fn bytes_per_token(&self) -> u64 {
        self.bytes_per_token
    }

    fn kv_bytes(&self) -> u64 {
        self.taken().kv
    }

    fn save(&self, seq: u32, out: &mut dyn Write) -> io::Result<()> {
        self.save_sequence(seq as usize, out)
    }

    fn load(&mut self, seq: u32, input: &mut dyn Read) -> io::Result<()> {
        self.load_sequence(seq as usize, input)
    }
}

/// A device error as the system's.
fn other(error: DeviceError) -> io::Error {
    io::Error::other(error)
}
