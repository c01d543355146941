//! The command line of `qrun [MODEL] [flags]`, read. Each flag's row in `flags/used.rs` says what it sets here.

use std::path::PathBuf;

use crate::{
    engine::DevicePreference,
    generate::{Drafter, HeadDrafter, NGramDrafter},
    sampler::SamplerParams,
    server::ServerOptions,
};
use qrun_models::{KvType, kv::MOST_DRAFTED};

use super::output::Output;

/// Everything that flags can say. `None` means: not said.
#[derive(Debug, Default)]
pub struct Args {
    /// A file, or the name of a model.
    pub model: Option<PathBuf>,
    pub hub: Hub,
    /// What is shown in place of an answer.
    pub show: Option<Show>,
    pub input: Input,
    pub chat: Chat,
    pub sampling: Sampling,
    pub machine: Machine,
    pub speculation: Speculation,
    pub output: Output,
    pub server: Server,
}

/// What a flag shows in place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    Help,
    HelpAll,
    Version,
    Completions,
    Devices,
    /// The models in the cache.
    Models,
}

/// Which model of a hub, and how it is fetched.
#[derive(Debug, Default)]
pub struct Hub {
    /// `-hf`: in place of the model.
    pub repo: Option<String>,
    /// `-mu`: in place of the model.
    pub url: Option<String>,
    pub file: Option<String>,
    pub token: Option<Secret>,
    pub offline: bool,
}

/// A text that is not shown.
#[derive(Clone)]
#[cfg_attr(not(feature = "download"), expect(dead_code, reason = "only the feature download reads it"))]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Where the prompt comes from.
#[derive(Debug)]
pub struct Input {
    pub prompt: Option<String>,
    pub file: Option<PathBuf>,
    pub binary_file: Option<PathBuf>,
    pub system: Option<String>,
    pub system_file: Option<PathBuf>,
    pub escape: bool,
}

impl Default for Input {
    fn default() -> Self {
        Self { prompt: None, file: None, binary_file: None, system: None, system_file: None, escape: true }
    }
}

/// How turns are framed.
#[derive(Debug, Default)]
pub struct Chat {
    /// `Some(true)` forces a chat, `Some(false)` raw text.
    pub conversation: Option<bool>,
    pub single_turn: bool,
    pub multiline: bool,
    /// The oldest turns make room where the context is full.
    pub drop_oldest: bool,
    pub template: Option<String>,
    pub template_file: Option<PathBuf>,
    pub template_kwargs: Option<String>,
    pub reasoning: Option<bool>,
}

/// How the next token is chosen.
#[derive(Debug)]
pub struct Sampling {
    pub n_predict: i64,
    /// `None`: another one each time.
    pub seed: Option<u32>,
    /// What flags say, and llama.cpp's defaults.
    pub params: SamplerParams,
    /// Parameters that flags have set, by the names of `general.sampling.*`: a model file does not change them.
    pub said: Vec<&'static str>,
    pub stops: Vec<String>,
    pub ignore_eos: bool,
    /// The samplers to apply; `None`: all.
    pub samplers: Option<Vec<&'static str>>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            n_predict: -1,
            seed: None,
            params: SamplerParams::default(),
            said: Vec::new(),
            stops: Vec::new(),
            ignore_eos: false,
            samplers: None,
        }
    }
}

impl Sampling {
    /// The parameters, to set the one that a model file calls `key`.
    pub fn set(&mut self, key: &'static str) -> &mut SamplerParams {
        self.said.push(key);
        &mut self.params
    }
}

/// What `qrun serve` has besides.
#[derive(Debug, Default)]
pub struct Server {
    pub options: ServerOptions,
    pub api_key_file: Option<PathBuf>,
    /// Requests at once, as typed; `None`: as many as the device takes well.
    pub parallel: Option<usize>,
    /// Most milliseconds of a step while anybody decodes; `None`: what suits the device.
    pub step_ms: Option<f64>,
    /// An answer does not depend on what runs beside it, whatever the weights.
    pub deterministic: bool,
    /// Make the vocabulary ready for grammars before anybody asks for one.
    pub grammar_warm: bool,
}

/// Where and how the model runs.
#[derive(Debug)]
pub struct Machine {
    /// Context size in tokens (`-c`); 0: as much as fits.
    pub n_ctx: usize,
    pub device: DevicePreference,
    /// As typed: a number, `auto` or `all`.
    pub gpu_layers: Option<String>,
    pub threads: Option<usize>,
    pub n_ubatch: usize,
    pub exact: bool,
    /// `None`: what the arithmetic suggests.
    pub type_k: Option<KvType>,
    pub type_v: Option<KvType>,
    pub swa_full: bool,
    pub repack: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            n_ctx: 0,
            device: DevicePreference::Auto,
            gpu_layers: None,
            threads: None,
            n_ubatch: 512,
            exact: false,
            type_k: None,
            type_v: None,
            swa_full: false,
            repack: true,
        }
    }
}

/// `--spec-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecType {
    None,
    /// The draft head of the model.
    DraftMtp,
    /// What followed the same tokens before.
    NgramSimple,
}

impl SpecType {
    /// llama.cpp's names.
    pub const NAMES: [&str; 3] = ["none", "draft-mtp", "ngram-simple"];

    /// The one of these names.
    pub fn named(name: &str) -> Self {
        let all = [Self::None, Self::DraftMtp, Self::NgramSimple];
        Self::NAMES.iter().position(|known| *known == name).map_or(Self::None, |at| all[at])
    }
}

/// What guesses tokens ahead.
#[derive(Debug, Clone)]
pub struct Speculation {
    /// What guesses.
    pub kind: SpecType,
    /// Most tokens of a draft of the model's head.
    pub n_max: usize,
    /// Its shorter drafts, and tokens that it finds less probable, are not used.
    pub head: HeadDrafter,
    pub n_grams: NGramDrafter,
}

impl Default for Speculation {
    fn default() -> Self {
        let (head, n_grams) = (HeadDrafter::default(), NGramDrafter { size_n: 12, size_m: 48 });
        Self { kind: SpecType::None, n_max: 3, head, n_grams }
    }
}

impl Speculation {
    /// Whether the model's draft head guesses.
    pub fn draft_head(&self) -> bool {
        self.kind == SpecType::DraftMtp
    }
    /// Most tokens that are guessed at once.
    pub fn n_draft(&self) -> usize {
        match self.kind {
            SpecType::None => 0,
            SpecType::DraftMtp => self.n_max,
            SpecType::NgramSimple => self.n_grams.size_m.min(MOST_DRAFTED),
        }
    }
    /// What guesses; `None`: nothing.
    pub fn drafter(&self) -> Option<Box<dyn Drafter>> {
        match self.kind {
            SpecType::None => None,
            SpecType::DraftMtp => Some(Box::new(self.head)),
            SpecType::NgramSimple => Some(Box::new(self.n_grams)),
        }
    }
}

impl Machine {
    /// Where the model is to run: `--device`, or the CPU where no layer is to go elsewhere.
    pub fn preference(&self) -> DevicePreference {
        match self.device {
            DevicePreference::Auto if self.gpu_layers.as_deref() == Some("0") => DevicePreference::Cpu,
            said => said,
        }
    }

    /// Whether `-ngl` asks for layers on a GPU.
    pub fn asks_for_gpu(&self) -> bool {
        self.gpu_layers.as_deref().is_some_and(|n| !["0", "auto", "-1"].contains(&n))
    }
}
