//! A thin and complete skin over the driver: a GPU with its kernels, memory, streams, graphs.
//!
//! Everything that touches the driver is here and in [`crate::device`]. Handles are freed when they are
//! dropped; errors while freeing are passed over, for a failed context fails in all of them.

mod gpu;
mod graph;
mod memory;
mod pinned;
mod ptr;
mod stream;
mod wait;

pub use gpu::{DeviceProperties, Gpu};
pub use graph::{Graph, LazyGraph};
pub use memory::{Arena, ArenaLayout, Part};
pub use pinned::Pinned;
pub use ptr::Ptr;
pub use stream::{Event, Grid, Params, Stream};
pub use wait::LAUNCH_LIMIT;
