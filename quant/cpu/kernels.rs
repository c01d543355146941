//! The arithmetic of products: a tile of weights, or some rows, times a panel of activations.
//!
//! One file per compute type and number of tokens: `int8`, `f32` for few tokens, where weights are unpacked in
//! registers; `int8_gemm` (with `int8_matrices` for some processors), `int16_gemm`, `f32_gemm` for many, where they
//! are unpacked once into packed panels (see [`micro::MicroKernel`]; `amx` takes the place of `micro` on processors that have
//! it). Files of the same type share what rounds, so that a token gets the same bits alone and in any batch.

#[cfg(target_arch = "x86_64")]
mod amx;
pub(super) mod exact;
pub(super) mod f32;
pub(super) mod f32_gemm;
pub(super) mod int16_gemm;
pub(super) mod int8;
pub(super) mod int8_gemm;
mod int8_matrices;
pub(super) mod micro;
pub(super) mod source;
