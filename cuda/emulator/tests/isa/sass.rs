//! Machine code.

pub mod arithmetic;
pub mod atomics;
mod convergence;
pub mod coverage;
pub mod harness;
pub mod memory;
mod planted;
pub mod shipped;
pub mod times;
pub mod together;
pub mod waits;
