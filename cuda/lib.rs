//! A CUDA device, as far as this machine has one.
//!
//! What this crate deliberately does not know: architectures, files, text.

pub mod device;
pub mod driver;
pub mod error;
pub mod image;
pub mod limits;
pub mod ops;

pub use driver::{
    Arena, ArenaLayout, DeviceProperties, Event, Gpu, Graph, Grid, LazyGraph, Params, Part, Pinned, Ptr, Stream,
};
pub use error::{DeviceError, Result};
