//! Mistral 3 (Ministral): Llama with YaRN, and queries that grow beyond the original context.

use super::llama::LLAMA;
use crate::spec::ArchSpec;

/// `general.architecture = "mistral3"`.
pub const MISTRAL3: ArchSpec = ArchSpec { name: "mistral3", q_temperature: true, ..LLAMA };
