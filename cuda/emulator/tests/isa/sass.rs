//! Machine code.

pub mod shipped;
