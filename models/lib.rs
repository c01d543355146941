//! Transformers as data: an architecture is one const, and there is one forward pass.
//!
//! What this crate deliberately does not know: text, sampling policy, terminals. Tokens are numbers
//! here, and logits are what comes out.

pub mod arch;
pub mod config;
pub mod cpu;
pub mod decoder;
pub mod demo;
pub mod events;
pub mod experts;
pub mod forward;
pub mod kv;
pub mod layer;
pub mod memory;
pub mod options;
pub mod pooling;
pub mod spec;
pub mod tap;
pub mod tensors;
pub mod weights;

use std::sync::Arc;

use qrun_quant::{Gguf, Result};

pub use config::Config;
pub use cpu::CpuDecoder;
pub use decoder::GpuDecoder;
pub use events::{EventHandler, LoadEvent, Progress};
pub use forward::{Batch, Cached, Entry, Forward, ForwardError, Output, PageCount, Row, Rows, Salt, SamplingRequest};
pub use kv::KvType;
pub use layer::LayerPlan;
pub use options::{Gives, Options};
pub use spec::ArchSpec;
pub use tap::Tap;
pub use weights::Weights;

/// A model as it lies in the file: numbers and weights. Cheap to clone; weights stay mapped.
#[derive(Clone)]
pub struct Model {
    /// The numbers of the file and what each layer does.
    pub config: Config,
    /// The weights, mapped from the file; shared by every decoder of the model.
    pub weights: Arc<Weights>,
}

impl Model {
    /// Reads a model: picks the architecture, checks every key and tensor it needs, maps the weights.
    ///
    /// # Errors
    /// A key or tensor is missing, damaged or asks for what is not implemented, or the architecture is not one of
    /// [`arch::ARCHITECTURES`]; the error names it, what was expected and what was found.
    pub fn load(gguf: &Gguf) -> Result<Self> {
        let config = Config::read(gguf)?;
        let weights = Arc::new(Weights::load(gguf, &config)?);
        Ok(Self { config, weights })
    }
}
