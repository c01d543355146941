//! The typed launches: one file per family of kernels. Each chooses its grid and states shapes and units.
//!
//! # Safety
//!
//! A launch takes addresses and shapes as they come. So the functions that take some are unsafe, and their callers answer
//! for this:
//!
//! * Each address in the parameters is null where its field allows that, or is one of the stream's GPU where a
//!   [`Ptr`](crate::Ptr) may lead, with as much memory behind it as the shapes say.
//! * Numbers that lie there and choose a place, such as tokens, positions, sequences and pages, choose one that exists.
//! * The memory stays allocated until the stream has passed the launch, or for as long as a graph that has recorded it
//!   may run.
//! * Nothing else on the device writes it meanwhile. What one stream is given runs in turn.
//!
//! Where a launch is recorded, all of this holds each time that the graph may run:
//! [`Graph::launch`](crate::Graph::launch) is safe.

pub mod activations;
pub mod attention;
pub mod cache;
pub mod embed;
pub mod experts;
pub mod formats;
pub mod gemm;
mod grids;
pub mod mamba;
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
