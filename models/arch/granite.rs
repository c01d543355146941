//! Granite 3 and 4 without recurrent layers: Llama with factors on embeddings, on what joins the residual stream, and
//! on logits.

use super::llama::LLAMA;
use crate::spec::{ArchSpec, EmbeddingScale, LogitScale};

/// `general.architecture = "granite"`.
pub const GRANITE: ArchSpec =
    ArchSpec { name: "granite", embedding_scale: EmbeddingScale::Key, logit_scale: LogitScale::Divide, ..LLAMA };

/// `general.architecture = "granitemoe"`.
pub const GRANITEMOE: ArchSpec = ArchSpec { name: "granitemoe", ..GRANITE };
