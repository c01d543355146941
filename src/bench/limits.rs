//! What the machine can do at most, and what a model asks of it: the roofline beside every speed.

use std::ops::Range;

use qrun_models::{Config, memory};
use qrun_quant::cpu::{Arithmetic, ComputeType, Matrix, limits};
use serde::{Deserialize, Serialize};

use crate::engine::{Backend, Engine};

/// Measured limits of the device that a model runs on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Reading memory, GB/s.
    pub read_gb_per_s: f64,
    /// int8 dot products, 10⁹ operations per second (CPU only).
    pub dot_gop_per_s: Option<f64>,
    /// Dot products of 16-bit integers, 10⁹ operations per second (CPU only; older reports lack it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair_gop_per_s: Option<f64>,
    /// f32 multiply-additions, 10⁹ operations per second (CPU only).
    pub fma_gop_per_s: Option<f64>,
}

impl Limits {
    /// Measures for some seconds. On a GPU that fails meanwhile nothing is known: 0.
    pub fn measure(engine: &Engine) -> Self {
        let threads = engine.options().threads;
        match engine.place() {
            Backend::Cpu { .. } => Self::processor(threads),
            Backend::Gpu { gpu, .. } => {
                Self { read_gb_per_s: qrun_cuda::limits::read_bandwidth(gpu).unwrap_or(0.0), ..Self::default() }
            }
        }
    }

    /// Measures so many threads of the processor.
    pub fn processor(threads: usize) -> Self {
        Self {
            read_gb_per_s: limits::read_bandwidth(threads),
            dot_gop_per_s: limits::dot_peak(threads),
            pair_gop_per_s: limits::pair_peak(threads),
            fma_gop_per_s: limits::fma_peak(threads),
        }
    }

    /// The better of two measurements: what disturbs makes a machine slower, never faster.
    pub fn best(self, other: Self) -> Self {
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        Self {
            read_gb_per_s: self.read_gb_per_s.max(other.read_gb_per_s),
            dot_gop_per_s: larger(self.dot_gop_per_s, other.dot_gop_per_s),
            pair_gop_per_s: larger(self.pair_gop_per_s, other.pair_gop_per_s),
            fma_gop_per_s: larger(self.fma_gop_per_s, other.fma_gop_per_s),
        }
    }
}

/// Operations by the numbers that they are done on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Operations {
    /// Quantized weights.
    pub int8: f64,
    /// Weights in 16-bit floats, in fixed point.
    pub int16: f64,
    /// Everything else.
    pub f32: f64,
}

/// What a model asks of a machine.
pub struct CostModel<'a> {
    engine: &'a Engine,
}

impl<'a> CostModel<'a> {
    /// Of this model as it is run here.
    pub fn new(engine: &'a Engine) -> Self {
        Self { engine }
    }

    /// Bytes of weights that a token reads.
    pub fn weight_bytes(&self) -> u64 {
        self.engine.model().weights.bytes_per_token()
    }

    /// Bytes that a step at a position of this range reads on average: weights and cache.
    pub fn step_bytes(&self, positions: Range<usize>) -> f64 {
        let (config, options) = (&self.engine.model().config, self.engine.options());
        let n = positions.len().max(1) as f64;
        let cache: u64 = positions.map(|pos| memory::kv_bytes_read(config, options, pos)).sum();
        self.weight_bytes() as f64 + cache as f64 / n
    }

    /// Steps per second at these positions if nothing but memory took time.
    pub fn decode_limit(&self, positions: Range<usize>, limits: &Limits) -> f64 {
        limits.read_gb_per_s * 1e9 / self.step_bytes(positions)
    }

    /// Operations (a multiplication and an addition are two) of a prompt at these positions. Only the last token goes
    /// through the head.
    pub fn prompt_operations(&self, positions: Range<usize>) -> Operations {
        let (model, n) = (self.engine.model(), positions.len());
        let fast = self.engine.options().arithmetic == Arithmetic::Fast;
        let attention = attention_operations(&model.config, positions);
        let mut operations = Operations { f32: attention, ..Operations::default() };
        let mut add = |w: &Matrix, tokens: usize| {
            let kind = match ComputeType::of(w.ty(), tokens) {
                ComputeType::Int8 if fast => &mut operations.int8,
                ComputeType::Int16 if fast => &mut operations.int16,
                _ => &mut operations.f32,
            };
            *kind += 2.0 * (w.rows() * w.cols() * tokens) as f64;
        };
        for linear in model.weights.layers.iter().flat_map(|l| l.matrices.iter()) {
            add(&linear.w, n);
        }
        add(model.weights.head(), 1);
        operations
    }

    /// Prompt tokens per second at these positions if nothing but arithmetic and reading the weights once per chunk
    /// took time; `None` where the machine's arithmetic is not known.
    pub fn prompt_limit(&self, positions: Range<usize>, limits: &Limits) -> Option<f64> {
        let (n, chunk) = (positions.len(), self.engine.options().n_ubatch.max(1));
        let operations = self.prompt_operations(positions);
        let seconds = |operations: f64, peak: Option<f64>| match peak {
            _ if operations == 0.0 => Some(0.0),
            peak => peak.map(|peak| operations / (peak * 1e9)),
        };
        let arithmetic = seconds(operations.int8, limits.dot_gop_per_s)?
            + seconds(operations.int16, limits.pair_gop_per_s)?
            + seconds(operations.f32, limits.fma_gop_per_s)?;
        let reading = n.div_ceil(chunk) as f64 * self.weight_bytes() as f64 / (limits.read_gb_per_s * 1e9);
        Some(n as f64 / arithmetic.max(reading))
    }
}

/// Scores and weighted sums of the attention.
fn attention_operations(c: &Config, positions: Range<usize>) -> f64 {
    let products = |pos: usize| -> usize { c.layers.iter().map(|l| l.q_dim() * l.seen(pos)).sum() };
    4.0 * positions.map(products).sum::<usize>() as f64
}
