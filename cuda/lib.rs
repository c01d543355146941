//! A CUDA device, as far as this machine has one.
//!
//! What this crate deliberately does not know: architectures, files, text.

pub mod device;
pub mod driver;
pub mod error;
pub mod image;
pub mod limits;
pub mod ops;

pub use driver::{Arena, Carver, Event, Facts, Gpu, Graph, Grid, Params, Part, Pinned, Ptr, Repeated, Stream, upload};
pub use error::{DeviceError, Result};
