//! Qwen 3: Qwen 2 without biases, with RMSNorm on each head of q and k.

use super::qwen2::QWEN2;
use crate::spec::{ArchSpec, QkNorm};

/// `general.architecture = "qwen3"`.
pub const QWEN3: ArchSpec = ArchSpec { name: "qwen3", qk_norm: QkNorm::Head, ..QWEN2 };
