//! Programs around the engine: smaller files, quality, models of random weights, two backends side by side.

pub mod compare;
pub mod quality;
pub mod quantize;
pub mod synth;
