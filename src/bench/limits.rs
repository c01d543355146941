//! What the machine can do at most, and what a model asks of it: the roofline beside every speed.

use std::ops::Range;

use qrun_models::{LayerPlan, memory};
use qrun_quant::cpu::{Arithmetic, ComputeType, Matrix, limits};
use serde::Serialize;

use crate::engine::{Backend, Engine};

/// Measured limits of the device that a model runs on; the peaks of arithmetic are those of a CPU, and not known of a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Reading memory, GB/s.
    pub read_gb_per_s: f64,
    /// int8 dot products, 10⁹ operations per second.
    pub dot_gop_per_s: Option<f64>,
    /// Dot products of 16-bit integers, 10⁹ operations per second (older reports lack it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_gop_per_s: Option<f64>,
    /// f32 multiply-additions, 10⁹ operations per second.
    pub fma_gop_per_s: Option<f64>,
}

impl Limits {
    /// Measures for some seconds. On a GPU that fails meanwhile nothing is known: 0.
    pub fn measure(engine: &Engine) -> Self {
        match engine.backend() {
            Backend::Cpu { .. } => Self::processor(engine.options().threads),
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

    /// The peak of products of this type, 10⁹ operations per second.
    pub fn peak(&self, products: ComputeType) -> Option<f64> {
        match products {
            ComputeType::Int8 => self.dot_gop_per_s,
            ComputeType::Int16 => self.pair_gop_per_s,
            ComputeType::Float => self.fma_gop_per_s,
        }
    }
}

/// What a model asks of a machine, as it is run here.
pub struct CostModel<'a>(pub &'a Engine);

impl CostModel<'_> {
    /// Bytes of weights that a token reads.
    pub fn weight_bytes(&self) -> u64 {
        self.0.model().weights.bytes_per_token()
    }

    /// Bytes that a step at a position of this range reads on average: weights and cache.
    pub fn step_bytes(&self, positions: Range<usize>) -> f64 {
        let (config, options) = (&self.0.model().config, self.0.options());
        let n = positions.len().max(1) as f64;
        let cache: u64 = positions.map(|pos| memory::kv_bytes_read(config, options, pos)).sum();
        self.weight_bytes() as f64 + cache as f64 / n
    }

    /// Steps per second at these positions if nothing but memory took time.
    pub fn decode_limit(&self, positions: Range<usize>, limits: &Limits) -> f64 {
        limits.read_gb_per_s * 1e9 / self.step_bytes(positions)
    }

    /// Seconds that the arithmetic of a prompt takes at least (a multiplication and an addition are two operations; only the
    /// last token goes through the head); `None` where the machine's arithmetic is not known.
    fn prompt_arithmetic(&self, positions: Range<usize>, limits: &Limits) -> Option<f64> {
        let (model, n) = (self.0.model(), positions.len());
        let fast = self.0.options().arithmetic == Arithmetic::Fast;
        let seconds = |products, operations: f64| Some(operations / (limits.peak(products)? * 1e9));
        // Of experts a token multiplies those that it takes.
        let matrix = |w: &Matrix, share: f64, tokens: usize| {
            let products = if fast { ComputeType::of(w.ty(), tokens) } else { ComputeType::Float };
            seconds(products, 2.0 * share * (w.rows() * w.cols() * tokens) as f64)
        };
        // Scores and weighted sums.
        let width = |l: &LayerPlan| l.n_head * (l.head_dim + l.value_dim());
        let attention = |pos: usize| model.config.layers.iter().map(|l| width(l) * l.seen(pos)).sum::<usize>();
        let mut sum = seconds(ComputeType::Float, 2.0 * positions.map(attention).sum::<usize>() as f64)?;
        for linear in model.weights.layers.iter().flat_map(|l| l.matrices.iter()) {
            let share = linear.experts.map_or(1.0, |[of, used]| used as f64 / of as f64);
            sum += matrix(&linear.w, share, n)?;
        }
        Some(sum + matrix(model.weights.head(), 1.0, 1)?)
    }

    /// Prompt tokens per second at these positions if nothing but arithmetic and reading the weights once per chunk
    /// took time; `None` where the machine's arithmetic is not known.
    pub fn prompt_limit(&self, positions: Range<usize>, limits: &Limits) -> Option<f64> {
        let (n, chunk) = (positions.len(), self.0.options().n_ubatch.max(1));
        let reading = n.div_ceil(chunk) as f64 * self.weight_bytes() as f64 / (limits.read_gb_per_s * 1e9);
        Some(n as f64 / self.prompt_arithmetic(positions, limits)?.max(reading))
    }
}
