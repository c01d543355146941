//! From a model file to a decoder: what is in the file, where it will run, and the memory it takes there.

mod backend;
mod error;
mod open;
pub mod plan;
mod timeline;

pub use backend::{Backend, DevicePreference, LoadedDecoder};
pub use error::{BackendError, LoadCause, LoadError, Stage};
pub use open::{Engine, EngineOptions, rounds_by_rows};
pub use timeline::{Step, Timeline};
