//! Chat templates: a conversation in, the text the model was trained on out.
//!
//! A model file carries its template as a Jinja program (`tokenizer.chat_template`). It is run by minijinja, set
//! up as `transformers` sets up Jinja2, so that the same template gives the same text, byte for byte. The text
//! contains the special tokens in their written form, the beginning-of-sequence token too where the template
//! writes it: tokenize it with special tokens parsed and without adding another.
//!
//! A template is a program by a stranger, so it runs in a sandbox (`sandbox`): whatever it does, rendering returns in
//! bounded time, and in bounded memory where the program installs [`SandboxAllocator`].

mod choose;
mod engine;
mod json;
mod sandbox;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use choose::{BUILTINS, Chosen, builtin, builtin_names, choose};
pub use sandbox::SandboxAllocator;
use sandbox::{LimitExceeded, Limits};

/// The longest template that is accepted, in bytes. The longest in public use are near 20 KB.
pub const MAX_SOURCE: usize = 256 << 10;

/// Memory for a rendering before the size of its input is added, in bytes.
const BASE_MEMORY: usize = 32 << 20;
/// Further memory for each byte of input: a few copies, and 24-byte values where text is split.
const MEMORY_PER_BYTE: usize = 64;
/// Reserved, not touched. Freeing lists nested as deeply as the fuel allows takes about half of it.
const STACK: usize = 64 << 20;
const TIME: Duration = Duration::from_secs(10);
/// Renderings of one template that may be parked, each holding at most its budget, before it is refused.
const MAX_PARKED: usize = 8;

/// One turn of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`.
    pub role: String,
    /// Text of the message.
    #[serde(default)]
    pub content: String,
    /// What else templates may look at: `reasoning_content`, `tool_calls`, `name` …. An entry named `content`
    /// replaces the text, for templates that take a list of parts.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Message {
    /// A turn of plain text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), extra: Map::new() }
    }
}

/// The written form of the special tokens that templates name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Specials {
    /// `bos_token`; empty where the vocabulary has none.
    pub bos: String,
    /// `eos_token`; empty where the vocabulary has none.
    pub eos: String,
}

/// How to render a conversation.
#[derive(Clone, Debug)]
pub struct Render {
    /// End with the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Further variables for the template (`enable_thinking`); they win over all others.
    pub kwargs: Map<String, Value>,
    /// Tool descriptions, a JSON array.
    pub tools: Option<Value>,
    /// What `strftime_now` calls now.
    pub now: SystemTime,
}

impl Default for Render {
    fn default() -> Self {
        Self { add_generation_prompt: true, kwargs: Map::new(), tools: None, now: SystemTime::now() }
    }
}

/// Why a template rendered nothing. `name` is where the template came from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The program is longer than [`MAX_SOURCE`].
    #[error("chat template {name}: {bytes} bytes; at most {MAX_SOURCE} are accepted")]
    TooLong {
        /// Where the template came from: a file's key, a path, a built-in name.
        name: String,
        /// Bytes of its text.
        bytes: usize,
    },
    /// The program is not Jinja.
    #[error("chat template {name}: {detail}")]
    Syntax {
        /// Where the template came from: a file's key, a path, a built-in name.
        name: String,
        /// Line and reason.
        detail: String,
    },
    /// The template refuses this conversation (`raise_exception`).
    #[error("chat template {name} refuses this conversation: {message}")]
    Refused {
        /// Where the template came from: a file's key, a path, a built-in name.
        name: String,
        /// The template's own words.
        message: String,
    },
    /// The program failed on this conversation, by an undefined value or a wrong type.
    #[error("chat template {name}: {detail}")]
    Failed {
        /// Where the template came from: a file's key, a path, a built-in name.
        name: String,
        /// Line and reason.
        detail: String,
    },
    /// The program was stopped.
    #[error("chat template {name} was stopped: {reason}")]
    Stopped {
        /// Where the template came from: a file's key, a path, a built-in name.
        name: String,
        /// Which limit was reached.
        reason: String,
    },
    /// The program had to be stopped by force too often: each time a thread and its memory are lost.
    #[error("chat template {name} had to be stopped {MAX_PARKED} times and is used no more")]
    GivenUp {
        /// Where the template came from: a file's key, a path, a built-in name.
        name: String,
    },
    /// `--chat-template` names nothing.
    #[error(
        "--chat-template {argument}: neither a built-in name ({}), nor a file, nor Jinja text", builtin_names().join(", ")
    )]
    Unknown {
        /// The argument as it was given.
        argument: String,
    },
    /// The file of `--chat-template` could not be read.
    #[error("--chat-template {path}: {reason}")]
    Unreadable {
        /// Path as it was given.
        path: String,
        /// What the system said.
        reason: String,
    },
}

/// A chat template that compiles.
#[derive(Debug)]
pub struct ChatTemplate {
    name: Arc<str>,
    source: Arc<str>,
    specials: Specials,
    /// Renderings that had to be parked: their threads and memory are lost until the process ends.
    parked: AtomicUsize,
}

impl ChatTemplate {
    /// Checks that `source` compiles. `name` says in errors where it came from.
    ///
    /// # Errors
    /// [`TemplateError::TooLong`], [`TemplateError::Syntax`], [`TemplateError::Stopped`].
    pub fn new(name: &str, source: &str, specials: Specials) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(TemplateError::TooLong { name: name.into(), bytes: source.len() });
        }
        let source: Arc<str> = engine::plain_generation_tags(source).into();
        let template = Self { name: name.into(), source, specials, parked: AtomicUsize::new(0) };
        let program = template.program(SystemTime::UNIX_EPOCH);
        template.sandboxed(template.source.len(), move || engine::check(&program))?;
        Ok(template)
    }

    /// Where the template came from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Jinja text that is run.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// [`TemplateError::Refused`] when the template calls `raise_exception`, [`TemplateError::Failed`] when it
    /// fails, [`TemplateError::Stopped`] when it reaches a limit. Other conversations may still be rendered: only of a
    /// template that had to be stopped by force eight times all are [`TemplateError::GivenUp`] from then on.
    pub fn render(&self, messages: &[Message], options: &Render) -> Result<String, TemplateError> {
        let program = self.program(options.now);
        let context = self.context(messages, options);
        let input = self.source.len() + weight(&context);
        self.sandboxed(input, move || engine::render(&program, &context))
    }

    fn program(&self, now: SystemTime) -> engine::Program {
        engine::Program { name: Arc::clone(&self.name), source: Arc::clone(&self.source), now }
    }

    /// The variables of the template, as `transformers` names them.
    fn context(&self, messages: &[Message], options: &Render) -> Value {
        let messages: Vec<Value> = messages.iter().map(message_value).collect();
        let mut context = Map::new();
        context.insert("messages".into(), messages.into());
        context.insert("tools".into(), options.tools.clone().unwrap_or(Value::Null));
        context.insert("documents".into(), Value::Null);
        context.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        context.insert("bos_token".into(), self.specials.bos.clone().into());
        context.insert("eos_token".into(), self.specials.eos.clone().into());
        context.extend(options.kwargs.clone());
        Value::Object(context)
    }

    fn sandboxed<T: Send + 'static>(
        &self,
        input: usize,
        job: impl FnOnce() -> Result<T, TemplateError> + Send + 'static,
    ) -> Result<T, TemplateError> {
        let bytes = BASE_MEMORY.saturating_add(input.saturating_mul(MEMORY_PER_BYTE));
        if self.parked.load(Ordering::Relaxed) >= MAX_PARKED {
            return Err(TemplateError::GivenUp { name: self.name.to_string() });
        }
        let limit = match sandbox::run(Limits { bytes, stack: STACK, time: TIME }, job) {
            Ok(answer) => return answer,
            Err(limit) => limit,
        };
        if matches!(limit, LimitExceeded::Memory | LimitExceeded::Stack | LimitExceeded::Time) {
            self.parked.fetch_add(1, Ordering::Relaxed);
        }
        Err(TemplateError::Stopped { name: self.name.to_string(), reason: limit.to_string() })
    }
}

/// A message as templates see it; reasoning is found under both of its names.
fn message_value(message: &Message) -> Value {
    let mut fields = Map::new();
    fields.insert("role".into(), message.role.clone().into());
    fields.insert("content".into(), message.content.clone().into());
    fields.extend(message.extra.clone());
    let reasoning = ["reasoning_content", "thinking", "reasoning"]
        .iter()
        .find_map(|name| fields.get(*name).filter(|value| !value.is_null()).cloned());
    if let Some(reasoning) = reasoning {
        fields.entry("thinking").or_insert_with(|| reasoning.clone());
        fields.insert("reasoning_content".into(), reasoning);
    }
    Value::Object(fields)
}

/// Roughly the bytes of a JSON tree: text, and a constant for each node.
fn weight(value: &Value) -> usize {
    16 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.iter().map(|(key, item)| key.len() + weight(item)).sum(),
        _ => 0,
    }
}
