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
pub use forward::{
    Batch, Cached, DraftRequest, Entry, Forward, ForwardError, Output, PageCount, Row, Rows, Salt, SamplingRequest,
};
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
        Self::of(gguf, Config::read(gguf)?)
    }

    /// The same with the block behind the layers that guesses further tokens (MTP), for [`Forward::draft`].
    ///
    /// # Errors
    /// The model has no such block, or the architecture's is not implemented; else as [`Model::load`], of this block too.
    pub fn load_with_draft_head(gguf: &Gguf) -> Result<Self> {
        let mut config = Config::read(gguf)?;
        config.read_draft_head(gguf)?;
        Self::of(gguf, config)
    }

    fn of(gguf: &Gguf, config: Config) -> Result<Self> {
        let weights = Arc::new(Weights::load(gguf, &config)?);
        Ok(Self { config, weights })
    }
}
