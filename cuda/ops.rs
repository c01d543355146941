//! The typed launches: one file per family of kernels. Each chooses its grid and states shapes and units.
//!
//! Addresses and shapes are taken as they come: what a launch reads and writes has to lie where a [`Ptr`](crate::Ptr) may lead, for as
//! long as it, or a graph that has recorded it, may run.

pub mod activations;
pub mod attention;
pub mod cache;
pub mod embed;
pub mod experts;
pub mod formats;
pub mod gemm;
pub mod matmul;
pub mod norm;
pub mod params;
pub mod probe;
pub mod product;
pub mod recurrent;
pub mod rope_kv;
pub mod sample;
#[cfg(test)]
mod twin;
pub mod upload;
