//! Conversations, for every dialect that has them: from messages to tokens, from an answer's text to what was said.

use std::sync::Arc;

use super::{error::ApiError, job::Ask, state::App};
use crate::{
    generate::{Chunk, Reply, TokenProbs},
    text::{
        chat::{self, ChatError, ChatRequest, Delta, Parser},
        grammar::GrammarError,
    },
};

/// Renders a conversation into the prompt of `ask`, with its mask, its stop texts and its marks; what the answer is read by
/// comes with it. On a thread that may take its time.
///
/// # Errors
/// What is wrong with the conversation, its tools or its format.
pub async fn prepare(app: &Arc<App>, chat: ChatRequest, mut ask: Ask) -> Result<(Ask, Parser), ApiError> {
    let app = app.clone();
    let work = move || {
        let model = app.model()?;
        let prepared = chat::prepare(&model.engine, &chat)?;
        let prompt = model.engine.prompt(&prepared.prompt);
        ask.prompts = vec![prompt.map_err(|error| ApiError::bad(format!("messages: {error}")))?];
        ask.request.mask = prepared.mask.or(ask.request.mask);
        ask.request.stops.extend(prepared.stops);
        ask.request.marks = prepared.marks;
        Ok((ask, prepared.parser))
    };
    blocking(work).await
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

impl From<GrammarError> for ApiError {
    fn from(error: GrammarError) -> Self {
        Self::bad(error.to_string())
    }
}

impl From<ChatError> for ApiError {
    fn from(error: ChatError) -> Self {
        // A template is the model's: what it cannot render may be the conversation's fault or its own.
        let message = error.to_string();
        match error {
            ChatError::Field { field, .. } => Self::bad(message).about(field),
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
