//! Phi 3, 3.5 and 4: Llama with half-split RoPE pairs, of which a part may turn, and divisors of their frequencies for
//! short and for long contexts.

use super::llama::LLAMA;
use crate::spec::{ArchSpec, RopeLayout};

/// `general.architecture = "phi3"`.
pub const PHI3: ArchSpec = ArchSpec { name: "phi3", rope: RopeLayout::Halves, ..LLAMA };
