//! Conversations, for every dialect that has them: from messages to tokens, from an answer's text to what was said.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use serde_json::{Map, Value, json};

use super::{error::ApiError, fields::Fields, job::Ask, state::App};
use crate::{
    clock::strftime,
    engine::Engine,
    generate::{Chunk, Reply, TokenProbs},
    text::{
        chat::{self, ChatError, ChatRequest, Delta, Parser, Prepared, Tool},
        grammar::{GrammarError, GrammarSpec, Strictness, schema},
        template::TemplateError,
    },
};

/// What an answer has to be, and the field that says so.
pub type Format = (&'static str, GrammarSpec);

/// A conversation as it is asked for.
pub struct Conversation {
    pub chat: ChatRequest,
    /// The field that says what the answer has to be; "" where none does.
    pub format: &'static str,
}

impl Conversation {
    /// Renders it, and says how its answer is constrained and read. It may take its time.
    ///
    /// # Errors
    /// What is wrong with the conversation, its tools or its format.
    pub fn prepare(&self, app: &App) -> Result<Prepared, ApiError> {
        let engine = &app.model()?.engine;
        chat::prepare(engine, &self.chat).map_err(|error| match error {
            ChatError::Grammar(error) => self.wrong_schema(engine, error),
            error => {
                if matches!(error, ChatError::Template(TemplateError::GivenUp { .. })) {
                    app.metrics.shed("template given up");
                }
                error.into()
            }
        })
    }

    /// Format and tools are compiled as one: which of them is wrong each says by itself.
    fn wrong_schema(&self, engine: &Engine, error: GrammarError) -> ApiError {
        let compiled = |spec: &GrammarSpec| engine.grammars().and_then(|grammars| grammars.compile(spec));
        if let Some(Err(error)) = self.chat.format.as_ref().map(compiled) {
            return wrong_format(self.format, &error);
        }
        let message = self.chat.tools.iter().find_map(|tool| wrong_tool(engine, tool));
        let field = if self.chat.tools.is_empty() { self.format } else { "tools" };
        ApiError::bad(message.unwrap_or_else(|| format!("{field}: {error}"))).about(field)
    }
}

/// What is wrong with the schema of a tool, if anything is.
fn wrong_tool(engine: &Engine, tool: &Tool) -> Option<String> {
    // As the grammar of calls has it: what no mask can express is passed over.
    let schema = schema(&tool.parameters, Strictness::Shape).ok()?;
    let grammar = GrammarSpec::Lark(format!("start: %json {schema}"));
    let error = engine.grammars().ok()?.compile(&grammar).err()?.to_string();
    // Without the place and the lines of that grammar.
    let said = error.split_once("JSON schema: ").map_or(&*error, |(_, said)| said);
    let said = said.split("\n   1 | ").next().unwrap_or(said);
    Some(format!("tools: {:?}: {}", tool.name, said.trim_end()))
}

/// 400: what a field says that an answer has to be cannot be compiled.
pub fn wrong_format(field: &str, error: &GrammarError) -> ApiError {
    let message = match error {
        // It names the field and the line.
        GrammarError::Gbnf { .. } => error.to_string(),
        _ => format!("{field}: {error}"),
    };
    ApiError::bad(message).about(field)
}

/// Renders a conversation into the prompt of `ask`, with its mask, its stop texts and its marks; what the answer is read by
/// comes with it. On a thread that may take its time, once there is room for the answers.
///
/// # Errors
/// What is wrong with the conversation, its tools or its format; 503 where there is no room.
pub async fn prepare(app: &Arc<App>, asked: Conversation, mut ask: Ask) -> Result<(Ask, Parser), ApiError> {
    ask.room = Some(app.admit(ask.n)?);
    let app = app.clone();
    let work = move || {
        let model = app.model()?;
        let prepared = asked.prepare(&app)?;
        let prompt = model.engine.prompt(&prepared.prompt);
        ask.prompts = vec![prompt.map_err(|error| ApiError::bad(format!("messages: {error}")))?];
        ask.request.mask = prepared.mask.or(ask.request.mask);
        ask.request.stops.extend(prepared.stops);
        ask.request.marks = prepared.marks;
        if model.engine.model().config.forgets() {
            ask.request.mark = chat::mark(&model.engine, asked.chat, &prepared.prompt, &ask.prompts[0]);
        }
        Ok((ask, prepared.parser))
    };
    blocking(work).await
}

/// Adds to a template's variables what all conversations have where nobody says otherwise: models think if they can,
/// and know the day, as with llama-server. Gives whether to think, where anybody says.
pub fn with_defaults(kwargs: &mut Map<String, Value>, thinking: Option<bool>) -> Option<bool> {
    let thinking = thinking.or_else(|| kwargs.get("enable_thinking").and_then(Value::as_bool));
    kwargs.entry("enable_thinking").or_insert_with(|| thinking.unwrap_or(true).into());
    for (name, format) in [("date_string", "%d %b %Y"), ("datetime", "%b %d %Y")] {
        let today = || strftime(SystemTime::now(), format).unwrap_or_default();
        kwargs.entry(name).or_insert_with(|| today().into());
    }
    thinking
}

/// How far a prompt is, for streams that tell.
pub struct Progress {
    /// What the prefix cache had of it.
    cached: Option<usize>,
    started: Instant,
}

impl Progress {
    /// `return_progress`: `None` where nobody wants to know.
    ///
    /// # Errors
    /// 400: it is no flag.
    pub fn of(fields: Fields) -> Result<Option<Self>, ApiError> {
        let wanted = fields.flag("return_progress")?.unwrap_or(false);
        Ok(wanted.then(|| Self { cached: None, started: Instant::now() }))
    }

    /// `prompt_progress`, where `done` of `total` tokens are in the cache.
    pub fn json(&mut self, done: usize, total: usize) -> Value {
        let cached = *self.cached.get_or_insert(done);
        let ms = self.started.elapsed().as_secs_f64() * 1e3;
        json!({ "total": total, "cache": cached, "processed": done, "time_ms": ms })
    }
}

/// Runs what takes long beside the thread for HTTP.
///
/// # Errors
/// Its own; 500 if it panics.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(ApiError::internal(error.to_string())))
}

impl From<ChatError> for ApiError {
    fn from(error: ChatError) -> Self {
        // A template is the model's: what it cannot render may be the conversation's fault or its own.
        let message = error.to_string();
        match error {
            ChatError::Field { field, .. } => Self::bad(message).about(field),
            ChatError::Template(TemplateError::GivenUp { .. }) => Self::unavailable(message, 60),
            _ => Self::bad(message),
        }
    }
}

/// What an answer says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    pub content: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    pub id: String,
    pub name: String,
    /// JSON.
    pub arguments: String,
}

impl Said {
    /// What a whole text says.
    pub fn of(parser: Parser, text: &str) -> Self {
        let mut said = Self::default();
        deltas(Some(parser), text).into_iter().for_each(|delta| said.take(delta));
        said
    }

    /// One more piece.
    pub fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Content(text) => self.content.push_str(&text),
            Delta::Reasoning(text) => self.reasoning.push_str(&text),
            Delta::ToolCall { id, name, .. } => self.calls.push(Call { id, name, arguments: String::new() }),
            Delta::Arguments { index, text } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&text);
                }
            }
        }
    }
}

/// What a chunk of an answer brings.
#[derive(Debug, Default)]
pub struct Read {
    /// What it says.
    pub deltas: Vec<Delta>,
    /// The token and its probabilities, where the request asks for them.
    pub token: Option<(u32, TokenProbs)>,
    /// The answer has ended with it.
    pub reply: Option<Reply>,
}

/// Reads the next chunk. Without a parser all text is content.
///
/// # Errors
/// The answer failed.
pub fn read(parser: Option<&mut Parser>, chunk: Chunk) -> Result<Read, ApiError> {
    let push = |parser: Option<&mut Parser>, text: String| match parser {
        Some(parser) => parser.push(&text),
        None if text.is_empty() => Vec::new(),
        None => vec![Delta::Content(text)],
    };
    Ok(match chunk {
        Chunk::Prompt { .. } | Chunk::Score { .. } | Chunk::Logits { .. } => Read::default(),
        Chunk::Token { id, text, probs } => {
            Read { deltas: push(parser, text), token: probs.map(|probs| (id, probs)), reply: None }
        }
        Chunk::Text(text) => Read { deltas: push(parser, text), ..Read::default() },
        Chunk::End(reply) => {
            let rest = parser.map(Parser::finish).unwrap_or_default();
            Read { deltas: rest, token: None, reply: Some(reply?) }
        }
    })
}

/// The deltas of a whole text. Without a parser all of it is content.
pub fn deltas(parser: Option<Parser>, text: &str) -> Vec<Delta> {
    match parser {
        Some(mut parser) => {
            let mut deltas = parser.push(text);
            deltas.extend(parser.finish());
            deltas
        }
        None if text.is_empty() => Vec::new(),
        None => vec![Delta::Content(text.into())],
    }
}
