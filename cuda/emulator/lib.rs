//! An emulated CUDA driver: the kernels of `cuda/kernels` run on the CPU, through an unmodified cudarc.
//!
//! A [`Machine`] is one emulated computer. A thread that [enters](Machine::enter) it has its driver calls go there;
//! handles remember their machine, so contexts and buffers may move between threads. Threads that never entered one use
//! a machine of the process, which the variable `QRUN_EMULATOR` describes (`sm=75,memory=4g,checked=1`).
//! README.md says what the checks find and how kernels have to be written.

mod config;
pub mod isa;
mod machine;
mod order;
mod symbols;

pub use config::{Code, Config, Streams};
pub use machine::{Counters, Entered, Failure, Machine, Traffic};
pub use order::Order;

use std::path::Path;

/// What the host shares with the kernels: lines `struct bytes`, `struct.field offset` and `constant value`, as the C++
/// compiler has them (kernel/layout.cpp).
pub const LAYOUT: &str = include_str!(concat!(env!("OUT_DIR"), "/layout.txt"));

/// Whether rounding is a GPU's where PTX leaves it open: built with `QRUN_EMULATOR_ARITHMETIC=silicon`.
pub const SILICON: bool = matches!(option_env!("QRUN_EMULATOR_ARITHMETIC"), Some(of) if !of.is_empty());

/// The folder with the emulated `libcuda.so`, for the `LD_LIBRARY_PATH` of a child process.
pub fn library() -> &'static Path {
    Path::new(env!("OUT_DIR"))
}
