//! SmolLM 3: Llama, but for every fourth layer, whose q and k do not turn (NoPE).

use super::llama::LLAMA;
use crate::spec::{ArchSpec, RopeLayers};

/// `general.architecture = "smollm3"`.
pub const SMOLLM3: ArchSpec = ArchSpec { name: "smollm3", rope_layers: RopeLayers::AllButEvery(4), ..LLAMA };
