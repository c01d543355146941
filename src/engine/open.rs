//! A model file, opened once: tokenizer, template, weights, and the plan of its memory.

use std::sync::OnceLock;

use qrun_cuda::DeviceError;
use qrun_models::{EventHandler, Forward, Gives, GpuDecoder, Model, Options};
use qrun_quant::{
    Gguf,
    cpu::{self, Arithmetic},
    gguf::Value,
};

use super::{
    LoadCause, LoadError, Stage, Timeline,
    backend::{Backend, DevicePreference, LoadedDecoder},
    plan::Plan,
};
use crate::{
    text::grammar::{GrammarError, Grammars},
    text::template::{self, ChatTemplate, Message, Render, Specials, TemplateError},
    text::tokenizer::{Encode, TokenizeError, Tokenizer},
};

/// What the caller wants of a model.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// How it runs; an `n_ctx` of 0 means as much as fits.
    pub options: Options,
    /// A template in place of the file's: a built-in name, a file, or Jinja text.
    pub template: Option<String>,
    /// Which processor it is to run on.
    pub device: DevicePreference,
}

/// A model that is ready to be loaded.
pub struct Engine {
    gguf: Gguf,
    model: Model,
    tokenizer: Tokenizer,
    template: Result<Option<ChatTemplate>, TemplateError>,
    options: Options,
    backend: Backend,
    plan: Plan,
    timeline: Timeline,
    /// Made when the first grammar is compiled.
    grammars: OnceLock<Result<Grammars, GrammarError>>,
}

impl Engine {
    /// Reads everything but the weights, and checks that they will fit.
    ///
    /// # Errors
    /// A damaged or unknown model, too little memory, a template argument that is none. A broken template
    /// *in the file* is an error only when it is used.
    pub fn open(gguf: Gguf, options: EngineOptions) -> Result<Self, LoadError> {
        let path = gguf.path().to_owned();
        let mut stage = Stage::Model;
        Self::open_noting(gguf, options, &mut stage).map_err(|source| LoadError {
            path,
            stage,
            source: Box::new(source),
        })
    }

    /// `stage` is what is being done.
    fn open_noting(gguf: Gguf, options: EngineOptions, stage: &mut Stage) -> Result<Self, LoadCause> {
        let EngineOptions { mut options, template: named, device } = options;
        let mut timeline = Timeline::start();
        let model = match options.draft_head {
            false => Model::load(&gguf)?,
            true => Model::load_with_draft_head(&gguf).or_else(|error| {
                // What else may be wrong comes first.
                Model::load(&gguf).map_err(LoadCause::from).and(Err(LoadCause::DraftHead(error)))
            })?,
        };
        if options.arithmetic == Arithmetic::Fast && rounds_by_rows(&gguf) {
            // With more rows a token's logits round differently, and a guess might change a text.
            options.n_draft = options.n_draft.min(cpu::FEW_TOKENS - 1);
        }
        if options.gives == Gives::Logits && model.config.is_bidirectional() {
            let (model, arch) = (gguf.path().display().to_string(), model.config.arch.name);
            return Err(LoadCause::NoText { model, arch });
        }
        timeline.lap("model");
        *stage = Stage::Tokenizer;
        let tokenizer = Tokenizer::from_gguf(&gguf)?;
        if tokenizer.n_vocab() > model.config.n_vocab {
            let expected = format!("at most {} tokens, the rows of token_embd.weight", model.config.n_vocab);
            Err(gguf.error("key tokenizer.ggml.tokens", expected, tokenizer.n_vocab().to_string()))?;
        }
        timeline.lap("tokenizer");
        *stage = Stage::Template;
        let template = choose_template(&gguf, &tokenizer, named.as_deref());
        let template = if named.is_some() { Ok(template?) } else { template };
        timeline.lap("template");
        *stage = Stage::Device;
        let (backend, plan) = Backend::choose(&model, &options, device)?;
        options.n_ctx = plan.n_ctx;
        timeline.lap("device, plan");
        let grammars = OnceLock::new();
        Ok(Self { gguf, model, tokenizer, template, options, backend, plan, timeline, grammars })
    }

    /// Metadata and tensor directory of the file.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }
    /// Configuration and weights.
    pub fn model(&self) -> &Model {
        &self.model
    }
    /// The file's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    /// Context size (chosen where none was asked for), sequences, threads, cache types.
    pub fn options(&self) -> &Options {
        &self.options
    }
    /// Most tokens of a sequence that are guessed ahead in a step: as many as were asked for, and as its backend takes.
    pub fn n_draft(&self) -> usize {
        match self.backend {
            Backend::Gpu { .. } => GpuDecoder::most_drafted(&self.options),
            Backend::Cpu { .. } => self.options.n_draft,
        }
    }
    /// The backend that was chosen, and why not a GPU.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }
    /// Whether a token has the same bits whatever is computed beside it: on the CPU, with quantized weights or in exact
    /// arithmetic. Elsewhere they may differ.
    pub fn is_deterministic(&self) -> bool {
        let on_cpu = matches!(self.backend, Backend::Cpu { .. });
        on_cpu && (self.options.arithmetic == Arithmetic::Exact || !rounds_by_rows(&self.gguf))
    }
    /// The memory it takes there.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// How long each part of opening took.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }
    /// The chat template; `None` where nothing says that this model can chat.
    ///
    /// # Errors
    /// The file's template does not compile.
    pub fn template(&self) -> Result<Option<&ChatTemplate>, &TemplateError> {
        self.template.as_ref().map(Option::as_ref)
    }

    /// What compiles grammars for this vocabulary. The first call sorts the vocabulary: 0.4 s for 128,000 tokens.
    ///
    /// # Errors
    /// The vocabulary cannot be used with grammars.
    pub fn grammars(&self) -> Result<&Grammars, GrammarError> {
        self.grammars.get_or_init(|| Grammars::new(&self.tokenizer)).as_ref().map_err(Clone::clone)
    }

    /// Loads the weights: a decoder with an empty cache. A GPU that fails meanwhile is given up for the CPU where that is
    /// allowed; one that fails later is not: its errors come to the caller, who may take [`Engine::spare`] then, as
    /// [`Scheduler::open`](crate::generate::Scheduler::open) does. `on_event` hears how loading goes.
    ///
    /// # Errors
    /// The device fails and nothing else was allowed; the system gives no threads.
    pub fn decoder(&self, on_event: &mut EventHandler) -> Result<LoadedDecoder, LoadError> {
        let path = self.gguf.path().to_owned();
        let failed = |source| LoadError { path, stage: Stage::Weights, source: Box::new(source) };
        self.backend.decoder(&self.model, &self.options, &self.plan, on_event).map_err(failed)
    }

    /// The CPU's decoder with an empty cache, after the GPU has failed with `error`; `None` where nothing but the GPU was
    /// allowed, or where the system gives no threads. `on_event` hears of it.
    pub fn spare(&self, error: &DeviceError, on_event: &mut EventHandler) -> Option<Box<dyn Forward>> {
        self.backend.spare(&self.model, &self.options, error, on_event)
    }

    /// The tokens of a text that begins a context: BOS once where the model wants it, special tokens
    /// where they are written out, and no EOS at the end, for the text is to go on.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        let mut tokens = self.tokenizer.encode(text, Encode { add_special: true, parse_special: true })?;
        let doubled = |t: &[u32]| t.len() > 1 && Some(t[0]) == self.tokenizer.bos() && t[0] == t[1];
        while doubled(&tokens) {
            tokens.remove(0);
        }
        if self.tokenizer.add_eos() && tokens.last().copied() == self.tokenizer.eos() {
            tokens.pop();
        }
        Ok(tokens)
    }

    /// The text of a conversation in the model's own form.
    ///
    /// # Errors
    /// A template that is broken or refuses the conversation; `None` without a template.
    pub fn render(&self, messages: &[Message], options: &Render) -> Option<Result<String, TemplateError>> {
        match &self.template {
            Ok(None) => None,
            Ok(Some(template)) => Some(template.render(messages, options)),
            Err(error) => Some(Err(error.clone())),
        }
    }

    /// A number that tells models apart: metadata, names, types and shapes of the tensors.
    pub fn fingerprint(&self) -> u64 {
        let metadata = self.gguf.metadata().iter().flat_map(|(key, value)| {
            let value = match value {
                Value::Array(array) => array.bytes.to_vec(),
                Value::Str(text) => text.as_str().as_bytes().to_vec(),
                scalar => scalar.describe().into_bytes(),
            };
            [key.clone().into_bytes(), value]
        });
        let tensors = self.gguf.tensors().iter().map(|t| format!("{}{}{:?}", t.name, t.ty, t.shape).into_bytes());
        let parts: Vec<Vec<u8>> = metadata.chain(tensors).collect();
        crate::checksum::fnv1a(parts.iter().map(Vec::as_slice))
    }
}

fn choose_template(
    gguf: &Gguf,
    tokenizer: &Tokenizer,
    argument: Option<&str>,
) -> Result<Option<ChatTemplate>, TemplateError> {
    let from_file = gguf.str("tokenizer.chat_template").ok().flatten();
    let Some(chosen) = template::choose(argument, from_file, |token| tokenizer.find(token).is_some())? else {
        return Ok(None);
    };
    let written = |id: Option<u32>| id.map(|id| tokenizer.text(id).to_owned()).unwrap_or_default();
    let specials = Specials { bos: written(tokenizer.bos()), eos: written(tokenizer.eos()) };
    ChatTemplate::new(&chosen.name, &chosen.source, specials).map(Some)
}

/// Whether a file has matrices of which the CPU's fast arithmetic rounds a token's products differently beside others.
pub fn rounds_by_rows(gguf: &Gguf) -> bool {
    gguf.tensors().iter().any(|tensor| tensor.shape.len() > 1 && cpu::rounds_by_rows(tensor.ty))
}
