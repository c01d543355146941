//! SIMD: the only place that asks which instructions the processor has.
//!
//! Three kinds of code run on vector registers. A [`SimdKernel`] is a plain loop that the compiler turns into vector
//! code, once per register width. A [`FloatKernel`] is written against [`FloatLanes`], where it matters what stays in
//! registers. Integer products are written against `Lanes` and compiled for each [`Isa`]. All give the same bits on
//! every instruction set.
//!
//! An instruction set is one file here that implements the two traits, and its rows in `dispatch.rs`; but for AMX, whose tiles have
//! functions of their own beside the vectors of AVX-512.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dispatch;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

pub use dispatch::{Isa, VectorWidth, dispatch};
pub use lanes::{FloatKernel, FloatLanes, SimdKernel};
pub(crate) use lanes::{LaneKernel, Lanes, sum_lanes};
pub(crate) use scalar::Scalar;
