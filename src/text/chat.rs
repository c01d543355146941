//! A chat below the server: messages and tools become a prompt, the answer's text becomes content, thoughts and calls.
//!
//! [`prepare`] renders the conversation in the model's own form and says what the answer may be (a mask), where it ends, and
//! how it is taken apart (a [`Parser`]). Text comes in pieces of any size; what a piece can already be, it becomes at once.

mod calls;
mod harmony;
mod head;
mod marked;
mod marks;
mod messages;
mod parser;
mod prompt;
mod reading;
mod scan;
mod syntax;
mod tagged;

use std::str::FromStr;

use serde_json::{Map, Value};

pub use messages::message;
pub use parser::Parser;
use reading::Reading;
use syntax::Syntax;

use crate::{
    engine::Engine,
    sampler::TokenMask,
    text::{
        grammar::{GrammarError, GrammarSpec, Thoughts},
        template::{Message, TemplateError},
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
    /// Whether thoughts are told apart from the content.
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
    /// The name by which the model calls it.
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
    /// The tool of this name, and no other.
    Named(String),
}

/// Whether thoughts are told apart from the content.
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

impl FromStr for ReasoningFormat {
    type Err = String;

    /// `none`, `deepseek` or `auto`.
    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "none" => Ok(Self::None),
            "deepseek" => Ok(Self::Deepseek),
            "auto" => Ok(Self::Auto),
            _ => Err(format!("expected none, deepseek or auto, found {name}")),
        }
    }
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
        /// Name of the tool that is called.
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
    let source = engine.template().map_err(Clone::clone)?.ok_or(ChatError::NoTemplate)?.source();
    let tools = tools(request)?;
    let syntax = Syntax::of(source);
    let mut prompt = prompt::render(engine, source, request, (!tools.is_empty()).then_some(syntax))?;
    let mut thoughts = thoughts(source, syntax, &prompt, request);
    // Not every template knows how to leave thoughts out: one that is closed at once is none.
    if request.thinking == Some(false) && request.add_generation_prompt && !request.continue_final_message {
        prompt += &thoughts.take().map_or(String::new(), |Thoughts { open, close, next, opened }| match opened {
            true => close + &next,
            false => open + &close + &next,
        });
    }
    let spec = constraint(engine, request, syntax, &tools, thoughts.as_ref())?;
    let mask = spec.map(|spec| engine.grammars()?.compile(&spec)).transpose()?;
    let own = thoughts.iter().flat_map(|thoughts| [&*thoughts.open, &*thoughts.close]);
    let marked = !tools.is_empty() || syntax == Syntax::Harmony;
    let called = if marked { syntax.marks() } else { Vec::new() };
    let tokenizer = engine.tokenizer();
    let marks = own.chain(called.iter().copied()).flat_map(|mark| marks::tokens(tokenizer, mark)).collect();
    let reading = Reading {
        syntax: marked.then_some(syntax),
        tools: tools.iter().map(|tool| tool.name.clone()).collect(),
        schemas: tools.iter().map(|tool| tool.parameters.clone()).collect(),
        thinking: thoughts.as_ref().is_some_and(|thoughts| thoughts.opened),
        continued: request.continue_final_message,
        apart: request.reasoning_format != ReasoningFormat::None,
        salt: crate::checksum::fnv1a([prompt.as_bytes()]),
        thoughts: thoughts.map(|Thoughts { open, close, .. }| [open, close]),
    };
    Ok(Prepared { mask, stops: Vec::new(), marks, parser: Parser::new(reading), prompt })
}

/// For [`Request::mark`](crate::generate::Request::mark): how many `tokens` of a prepared prompt come before the text of
/// the first user. Other conversations with the same system message and tools begin with them, too.
pub fn mark(engine: &Engine, mut request: ChatRequest, prompt: &str, tokens: &[u32]) -> usize {
    let (Ok(Some(template)), Some(first)) =
        (engine.template(), request.messages.iter().position(|message| message.role == "user"))
    else {
        return 0;
    };
    request.messages.truncate(first + 1);
    request.continue_final_message = false;
    // Another text from its first letter on.
    let text = &mut request.messages[first].content;
    *text = if text.trim_start().starts_with('a') { "b" } else { "a" }.into();
    let source = template.source();
    let has_tools = tools(&request).is_ok_and(|tools| !tools.is_empty());
    let Ok(other) = prompt::render(engine, source, &request, has_tools.then(|| Syntax::of(source))) else { return 0 };
    let same = prompt.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    let same = &prompt[..same.map(|(c, _)| c.len_utf8()).sum::<usize>()];
    // The last one may be another where more text follows.
    engine.prompt(same).unwrap_or_default().iter().zip(tokens).take_while(|(a, b)| a == b).count()
}

/// What takes apart the answers of a model that writes them in channels, where neither tools nor a format are asked for,
/// and the control tokens that it looks for (for [`Request::marks`](crate::generate::Request::marks)). `None`: all of an
/// answer's text is for the reader.
pub fn channels(engine: &Engine) -> Option<(Parser, Vec<u32>)> {
    let template = engine.template().ok().flatten()?;
    let syntax = Some(Syntax::of(template.source())).filter(|syntax| *syntax == Syntax::Harmony);
    let parser = Parser::new(Reading { syntax: Some(syntax?), apart: true, ..Reading::default() });
    let marks = marks::HARMONY.iter().flat_map(|mark| marks::tokens(engine.tokenizer(), mark));
    Some((parser, marks.collect()))
}

/// The tools that the answer may call.
fn tools(request: &ChatRequest) -> Result<Vec<&Tool>, ChatError> {
    let wrong = |field: &'static str, detail: String| Err(ChatError::Field { field, detail });
    if request.tools.len() > MAX_TOOLS {
        return wrong("tools", format!("{} tools; at most {MAX_TOOLS} are accepted", request.tools.len()));
    }
    for tool in &request.tools {
        if tool.name.is_empty() || tool.name.len() > 128 || !tool.name.chars().all(marked::in_name) {
            return wrong("tools", format!("{:?} is no name of a tool: 1 to 128 of a-z A-Z 0-9 _ - . : /", tool.name));
        }
    }
    match &request.tool_choice {
        ToolChoice::None => Ok(Vec::new()),
        ToolChoice::Required if request.tools.is_empty() => wrong("tool_choice", "\"required\" without tools".into()),
        ToolChoice::Auto | ToolChoice::Required => Ok(request.tools.iter().collect()),
        ToolChoice::Named(name) => match request.tools.iter().find(|tool| tool.name == *name) {
            // The model sees all of them, the grammar has this one.
            Some(_) => Ok(request.tools.iter().collect()),
            None => wrong("tool_choice", format!("there is no tool {name:?} among the tools")),
        },
    }
}

/// How the model thinks in this answer; `None`: it does not.
fn thoughts(source: &str, syntax: Syntax, prompt: &str, request: &ChatRequest) -> Option<Thoughts> {
    let [open, close, next] = match syntax {
        Syntax::Harmony => marks::ANALYSIS,
        _ => *marks::THOUGHTS.iter().find(|row| row[..2].iter().all(|mark| source.contains(mark)))?,
    };
    let end = prompt.trim_end();
    let continued = request.continue_final_message.then(|| request.messages.last()).flatten();
    let opened = match continued {
        Some(message) => message.content.rfind(open) > message.content.rfind(close),
        None => end.ends_with(open),
    };
    // A thought that the prompt has closed, or text that is gone on with: there will be none.
    if !opened && (end.ends_with(close) || continued.is_some_and(|message| !message.content.is_empty())) {
        return None;
    }
    Some(Thoughts { open: open.into(), close: close.into(), next: next.into(), opened })
}

/// What the answer may be.
fn constraint(
    engine: &Engine,
    request: &ChatRequest,
    syntax: Syntax,
    tools: &[&Tool],
    thoughts: Option<&Thoughts>,
) -> Result<Option<GrammarSpec>, ChatError> {
    let choice = match &request.tool_choice {
        ToolChoice::Named(name) => tools.iter().copied().filter(|tool| tool.name == *name).collect(),
        _ => tools.to_vec(),
    };
    let many = request.parallel_tool_calls && !matches!(request.tool_choice, ToolChoice::Named(_));
    let calls = match choice.is_empty() {
        true => None,
        false => Some(calls::grammar(syntax, &choice, many, engine.grammars()?)?),
    };
    let after = |grammar: GrammarSpec| match thoughts {
        Some(thoughts) => GrammarSpec::AfterThoughts { thoughts: thoughts.clone(), grammar: Box::new(grammar) },
        None => grammar,
    };
    let format = request.format.clone().map(|grammar| match syntax {
        Syntax::Harmony if !request.continue_final_message => {
            GrammarSpec::After { marks: marks::FINAL.into(), grammar: Box::new(grammar) }
        }
        _ => grammar,
    });
    Ok(match (calls, format, &request.tool_choice) {
        (None, None, _) => None,
        // Thoughts that are not told apart are content, and the content has a format.
        (None, Some(format), _) if request.reasoning_format == ReasoningFormat::None => match thoughts {
            Some(thoughts) if thoughts.opened => Some(after(format)),
            _ => Some(format),
        },
        (None, Some(format), _) => Some(after(format)),
        (Some(calls), Some(format), ToolChoice::Auto) => Some(after(GrammarSpec::Either(vec![calls, format]))),
        (Some(calls), None, ToolChoice::Auto) => Some(GrammarSpec::Lazy {
            grammar: Box::new(calls),
            triggers: calls::triggers(syntax),
            thoughts: thoughts.cloned(),
        }),
        (Some(calls), _, _) => Some(after(calls)),
    })
}
