//! DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash and Mistral Large 3: latent attention, and experts beside one for every token.
//! Mistral Small 4 has another name.

use super::llama::LLAMA;
use crate::spec::{ArchSpec, Gating, GroupScore, Routing};

/// `general.architecture = "deepseek2"`.
pub const DEEPSEEK2: ArchSpec = ArchSpec {
    name: "deepseek2",
    latent: true,
    q_temperature: true,
    routing: Routing { gating: Gating::Softmax, norm: false },
    group_score: GroupScore::BestOfSoftmax,
    // GLM 4.7 Flash, without and with the block that predicts further tokens.
    sigmoid_sizes: &[[47, 154_880], [48, 154_880]],
    ..LLAMA
};

/// `general.architecture = "mistral4"`.
pub const MISTRAL4: ArchSpec =
    ArchSpec { name: "mistral4", group_score: GroupScore::TwoBest, sigmoid_sizes: &[], ..DEEPSEEK2 };
