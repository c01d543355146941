//! From a model file to a decoder: what is in the file, where it will run, and the memory it takes there.

mod backend;
mod open;
pub mod plan;
mod timeline;

pub use backend::{Backend, BackendError, BareDecoder, DevicePreference, LoadError};
pub use open::{Engine, EngineOptions, OpenError};
pub use timeline::{Step, Timeline};
