//! Arithmetic on quantized matrices: threads, activations and `y = W·x` on the CPU.
//!
//! Two kinds of arithmetic: [`Arithmetic::Exact`] computes in f32 on dequantized weights and is the
//! oracle that everything else is compared with; [`Arithmetic::Fast`] quantizes activations to int8
//! once per vector and uses integer dot products chosen at run time. F16 and BF16 are multiplied in f32 with up
//! to 12 vectors and in 16-bit fixed point, 10⁻⁴ apart, with more. Both give the same result on any
//! number of threads: each output element is computed by one thread in one order.
//!
//! Four floors, each using those below: `layout`, `tuning`, `prefetch`, `par` (and [`crate::simd`]) · `tiles` of weights and
//! `activations` · `kernels`, the arithmetic · `gemm` and `matmul`, which choose kernels and call them.

mod activations;
mod gemm;
mod kernels;
mod layout;
pub mod limits;
mod matmul;
mod matrix;
mod packing;
pub mod par;
mod prefetch;
mod tiles;
mod tuning;

pub use activations::{Activations, ComputeType, FEW as FEW_TOKENS, rounds_by_rows, tokens_per_panel};
pub use layout::ROWS as TILE_ROWS;
pub use matmul::{Gated, Job, matmul, matmul_gated, multiplies_gated};
pub use matrix::Matrix;
pub use packing::PackAllowance;
pub use par::physical_cores;
pub use prefetch::prefetch_far;
pub use tuning::Tuning;

pub use crate::simd::Isa;

/// Precision of the arithmetic: exact, or as fast as the machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// f32 weights and activations, summed in f64: what everything else is compared with.
    Exact,
    /// int8 activations and integer dot products for quantized weights; f32 or fixed point for floats.
    Fast,
}
