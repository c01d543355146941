//! Machine code.

pub mod coverage;
pub mod harness;
pub mod memory;
pub mod shipped;
pub mod times;
pub mod together;
