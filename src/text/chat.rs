//! A chat below the server: messages and tools become a prompt, the answer's text becomes content, thoughts and calls.
//!
//! [`prepare`] renders the conversation in the model's own form and says what the answer may be (a mask), where it ends, and
//! how it is taken apart (a [`Parser`]). Text comes in pieces of any size; what a piece can already be, it becomes at once.

mod messages;
mod parser;

use serde_json::{Map, Value};

pub use messages::message;
pub use parser::Parser;

use crate::{
    engine::Engine,
    sampler::TokenMask,
    text::{
        grammar::{GrammarError, GrammarSpec},
        template::{Message, Render, TemplateError},
    },
};

/// Most tools of one request.
pub const MAX_TOOLS: usize = 128;

/// What an answer is wanted to.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// The conversation. `extra` of a message may hold `content` as a list of text parts or null, `tool_calls` whose
    /// `arguments` are a string or an object, `tool_call_id`, `name`, `reasoning_content`.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<Tool>,
    /// Whether it has to.
    pub tool_choice: ToolChoice,
    /// Whether it may call more than one at a time.
    pub parallel_tool_calls: bool,
    /// What the answer's content has to be.
    pub format: Option<GrammarSpec>,
    /// Where thoughts go.
    pub reasoning_format: ReasoningFormat,
    /// Whether the model is to think, where its template lets one choose.
    pub thinking: Option<bool>,
    /// Further variables for the template; they win over all others.
    pub kwargs: Map<String, Value>,
    /// End the prompt with the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Go on with the last message, which is the assistant's, instead.
    pub continue_final_message: bool,
}

impl Default for ChatRequest {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            format: None,
            reasoning_format: ReasoningFormat::Auto,
            thinking: None,
            kwargs: Map::new(),
            add_generation_prompt: true,
            continue_final_message: false,
        }
    }
}

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON schema of its arguments, an object.
    pub parameters: Value,
}

/// Whether tools are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model sees fit.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// Where thoughts go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReasoningFormat {
    /// They stay in the content, marks and all.
    None,
    /// They are told apart.
    Deepseek,
    /// They are told apart.
    #[default]
    Auto,
}

/// What a chat needs to be generated and read.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The conversation in the model's form, for [`Engine::prompt`].
    pub prompt: String,
    /// For [`Request::mask`](crate::generate::Request::mask).
    pub mask: Option<TokenMask>,
    /// For [`Request::stops`](crate::generate::Request::stops), beside the caller's own.
    pub stops: Vec<String>,
    /// For [`Request::marks`](crate::generate::Request::marks): control tokens that the parser looks for in the text.
    pub marks: Vec<u32>,
    /// Takes the answer apart.
    pub parser: Parser,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text for the reader.
    Content(String),
    /// Text of the model's thoughts.
    Reasoning(String),
    /// A call begins.
    ToolCall {
        /// Number of the call in this answer, from 0.
        index: usize,
        /// Its id, by which the result will refer to it.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments: pieces of a JSON text.
    Arguments {
        /// Number of the call.
        index: usize,
        /// The next piece.
        text: String,
    },
}

/// Why a chat cannot be prepared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChatError {
    /// Nothing in the model file says that it can chat.
    #[error("this model has no chat template; --chat-template gives it one")]
    NoTemplate,
    /// The template is broken, or refuses the conversation.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A response format or a tool's schema that cannot be compiled.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// A field of the request; the texts name it.
    #[error("{field}: {detail}")]
    Field {
        /// The field, as OpenAI's API calls it.
        field: &'static str,
        /// What was expected and what was found.
        detail: String,
    },
}

/// Renders a conversation and says how its answer is constrained and read.
///
/// # Errors
/// No template, or one that refuses the conversation; tools or formats that cannot be had.
pub fn prepare(engine: &Engine, request: &ChatRequest) -> Result<Prepared, ChatError> {
    let render = Render {
        add_generation_prompt: request.add_generation_prompt,
        kwargs: request.kwargs.clone(),
        ..Render::default()
    };
    let prompt = engine.render(&request.messages, &render).ok_or(ChatError::NoTemplate)??;
    let mask = request.format.as_ref().map(|spec| engine.grammars()?.compile(spec)).transpose()?;
    Ok(Prepared { prompt, mask, stops: Vec::new(), marks: Vec::new(), parser: Parser::default() })
}
