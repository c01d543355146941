//! Granite 3 and 4: Llama with factors on embeddings, on what joins the residual stream, and on logits. Most layers of
//! Granite 4 H have Mamba-2 in place of attention, and no layer has a rotary embedding.

use super::llama::LLAMA;
use crate::spec::{ArchSpec, EmbeddingScale, LogitScale, Recurrent, RopeLayers};

/// `general.architecture = "granite"`.
pub const GRANITE: ArchSpec =
    ArchSpec { name: "granite", embedding_scale: EmbeddingScale::Key, logit_scale: LogitScale::Divide, ..LLAMA };

/// `general.architecture = "granitemoe"`.
pub const GRANITEMOE: ArchSpec = ArchSpec { name: "granitemoe", ..GRANITE };

/// `general.architecture = "granitehybrid"`, dense or with experts.
pub const GRANITEHYBRID: ArchSpec =
    ArchSpec { name: "granitehybrid", recurrent: Recurrent::Mamba2, rope_layers: RopeLayers::Finetuned, ..GRANITE };
