//! What an answer may be: a JSON schema or a grammar, compiled to a mask over the tokens of a vocabulary.
//!
//! The crate `llguidance` walks the vocabulary as a trie and asks its parser which tokens may come next. Its own parts read
//! JSON schemas and Lark grammars; GBNF, the form of llama.cpp, is translated to Lark ([`gbnf`]). Time and memory of a
//! compilation and of a mask are limited. What cannot be compiled is an error: nothing falls back to free text.

mod env;
mod gbnf;
mod lazy;
mod matcher;
mod refs;
mod shape;

use std::sync::Arc;

use llguidance::{
    JsonCompileOptions, Matcher, ParserFactory,
    api::{GrammarWithLexer, ParserLimits, TopLevelGrammar},
    toktrie::InferenceCapabilities,
};
use serde_json::{Value, json};

pub use lazy::Trigger;

use crate::{sampler::TokenMask, text::tokenizer::Tokenizer};
use env::Vocabulary;
use lazy::Lazy;
use matcher::{Parsed, reason};

/// The longest grammar that is accepted, in bytes of GBNF or Lark text.
pub const MAX_GRAMMAR: usize = 64 << 10;
/// The longest JSON schema that is accepted, in bytes as JSON.
pub const MAX_SCHEMA: usize = 1 << 20;

/// Steps of the parser for one mask, about 10 ms; grammars that go on character by character need many.
const MAX_ITEMS: usize = 200_000;

/// White space between the parts of a JSON text: enough to indent, not enough to go on for ever.
const WHITESPACE: &str = r"[ ]|\n[ \t]{0,20}";

/// A constraint on an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum GrammarSpec {
    /// A JSON text that a schema describes.
    JsonSchema(Value),
    /// Any JSON object.
    JsonObject,
    /// A grammar in llama.cpp's form.
    Gbnf(String),
    /// A grammar in the form of Lark that llguidance reads.
    Lark(String),
    /// Any of these.
    Either(Vec<GrammarSpec>),
    /// A thought, which is free text and may be left out unless the answer begins in one; then the grammar.
    AfterThoughts {
        /// How a thought is marked.
        thoughts: Thoughts,
        /// What follows it.
        grammar: Box<GrammarSpec>,
    },
    /// These marks, then the grammar.
    After {
        /// Control tokens and text between them, as they are written.
        marks: String,
        /// What follows them.
        grammar: Box<GrammarSpec>,
    },
    /// No constraint until the text gets to a trigger; from the trigger's first byte on, a grammar. Outermost only.
    Lazy {
        /// What the text is from the trigger on, the trigger included.
        grammar: Box<GrammarSpec>,
        /// Any of them starts the grammar.
        triggers: Vec<Trigger>,
        /// No trigger counts in a thought.
        thoughts: Option<Thoughts>,
    },
}

/// How the thoughts of a model are marked in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thoughts {
    /// The mark before them.
    pub open: String,
    /// The mark after them.
    pub close: String,
    /// What stands between that mark and what follows; mostly nothing.
    pub next: String,
    /// The answer begins in a thought: the prompt ends with the mark.
    pub opened: bool,
}

/// Why a grammar was not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// Longer than is accepted.
    #[error("a grammar of {bytes} bytes; at most {most} are accepted")]
    TooLong {
        /// Bytes of its text.
        bytes: usize,
        /// [`MAX_GRAMMAR`] or [`MAX_SCHEMA`].
        most: usize,
    },
    /// A GBNF text that is none.
    #[error("grammar, line {line}: {detail}")]
    Gbnf {
        /// Line of the text, from 1.
        line: usize,
        /// What was expected and what was found.
        detail: String,
    },
    /// A schema or grammar that cannot be compiled, or only beyond the limits.
    #[error("{0}")]
    Compile(String),
    /// The vocabulary itself could not be made ready.
    #[error("the vocabulary cannot be used with grammars: {0}")]
    Vocabulary(String),
}

/// A vocabulary, made ready for grammars once.
pub struct Grammars {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
}

impl Grammars {
    /// Sorts the vocabulary into a trie: about 0.4 s for 128,000 tokens.
    ///
    /// # Errors
    /// The trie could not be built.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, GrammarError> {
        let vocabulary = Vocabulary::new(tokenizer);
        let slices =
            ["[^\"\\\\\\x00-\\x1F\\x7F]{1,10}", "[^\"\\\\\\x00-\\x1F\\x7F]{1,30}", "[^\"\\\\\\x00-\\x1F\\x7F]+"];
        let slices = slices.map(String::from);
        let mut factory = ParserFactory::new(&vocabulary.clone().env(), InferenceCapabilities::default(), &slices)
            .map_err(|error| GrammarError::Vocabulary(error.to_string()))?;
        factory.quiet();
        *factory.limits_mut() =
            ParserLimits { step_max_items: MAX_ITEMS, verbose_errors: false, ..ParserLimits::default() };
        Ok(Self { factory, vocabulary })
    }

    /// A mask that lets through what `spec` describes, and the end of the turn exactly where it may end.
    ///
    /// # Errors
    /// A schema or grammar that is wrong, not supported or beyond the limits.
    pub fn compile(&self, spec: &GrammarSpec) -> Result<TokenMask, GrammarError> {
        if let GrammarSpec::Lazy { grammar, triggers, thoughts } = spec {
            let grammar = self.compile(grammar)?;
            let lazy = Lazy::new(grammar, self.vocabulary.clone(), triggers.clone(), thoughts.clone());
            return Ok(TokenMask(Box::new(lazy)));
        }
        let failed = |error: &dyn std::fmt::Display| GrammarError::Compile(reason(&error.to_string()));
        let parser =
            self.factory.create_parser(self.top_level(spec)?).map_err(|error| failed(&format!("{error:#}")))?;
        let matcher = Matcher::new(Ok(parser));
        if let Some(error) = matcher.get_error() {
            return Err(failed(&error));
        }
        let mut mask = TokenMask(Box::new(Parsed::new(matcher, self.vocabulary.clone())));
        mask.allowed().map_err(|error| failed(&error))?;
        Ok(mask)
    }

    /// A mark of a chat as Lark writes it: the control token of that text, else its parts, each a control token or text.
    /// Nothing for no text.
    pub fn mark(&self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let one = |text: &str| self.vocabulary.control(text).map(|id| format!("<[{id}]>"));
        let part = |part: &str| one(part).unwrap_or_else(|| quoted(part));
        one(text).unwrap_or_else(|| mark_parts(text).map(part).collect::<Vec<_>>().join(" "))
    }

    fn top_level(&self, spec: &GrammarSpec) -> Result<TopLevelGrammar, GrammarError> {
        let mut grammars = Vec::new();
        self.collect(spec, "main".into(), &mut grammars)?;
        Ok(TopLevelGrammar { grammars, max_tokens: None })
    }

    /// Adds a grammar of that name, and those that it refers to.
    fn collect(&self, spec: &GrammarSpec, name: String, to: &mut Vec<GrammarWithLexer>) -> Result<(), GrammarError> {
        let lark = |text: String| GrammarWithLexer { lark_grammar: Some(text), ..GrammarWithLexer::default() };
        let json = |schema: Value| GrammarWithLexer { json_schema: Some(schema), ..GrammarWithLexer::default() };
        let part = |i: usize| format!("{name}_{i}");
        let (grammar, inner) = match spec {
            GrammarSpec::JsonObject => (json(schema(&json!({"type": "object"}), Strictness::Exact)?), &[][..]),
            GrammarSpec::JsonSchema(value) => {
                within(value.to_string().len(), MAX_SCHEMA)?;
                (json(schema(value, Strictness::Exact)?), &[][..])
            }
            GrammarSpec::Gbnf(text) => {
                within(text.len(), MAX_GRAMMAR)?;
                (lark(gbnf::to_lark(text)?), &[][..])
            }
            GrammarSpec::Lark(text) => (lark(text.clone()), &[][..]),
            GrammarSpec::Either(specs) => {
                let names: Vec<String> = (0..specs.len()).map(|i| format!("@{}", part(i))).collect();
                (lark(format!("start: {}", names.join(" | "))), &specs[..])
            }
            GrammarSpec::AfterThoughts { thoughts, grammar } => {
                (lark(self.thought(thoughts, &part(0))), std::slice::from_ref(&**grammar))
            }
            GrammarSpec::After { marks, grammar } => {
                (lark(format!("start: {} @{}", self.mark(marks), part(0))), std::slice::from_ref(&**grammar))
            }
            GrammarSpec::Lazy { .. } => return Err(GrammarError::Compile("a lazy grammar inside of another".into())),
        };
        to.push(GrammarWithLexer { name: Some(name.clone()), ..grammar });
        inner.iter().enumerate().try_for_each(|(i, spec)| self.collect(spec, part(i), to))
    }

    /// The grammar of a thought, or none, and then another grammar.
    fn thought(&self, thoughts: &Thoughts, then: &str) -> String {
        let [open, close, next] = [&thoughts.open, &thoughts.close, &thoughts.next].map(|text| self.mark(text));
        let rest = match self.vocabulary.control(&thoughts.close) {
            // A control token ends any text.
            Some(_) => format!("rest: FREE? {close}\nFREE: /(?s:.+)/"),
            None => format!("rest[suffix={close}]: /(?s:.*)/"),
        };
        let start = match thoughts.opened {
            true => format!("rest WS? {next} @{then}"),
            false => format!("({open} rest WS? {next})? @{then}"),
        };
        format!("start: {start}\n{rest}\nWS: /[ \\t\\r\\n]{{1,8}}/")
    }
}

/// The parts of a mark: what stands in angle brackets, and what stands between.
pub fn mark_parts(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('>').flat_map(|part| {
        let (before, mark) = part.split_at(part.find('<').unwrap_or(part.len()));
        [before, mark].into_iter().filter(|part| !part.is_empty())
    })
}

fn within(bytes: usize, most: usize) -> Result<(), GrammarError> {
    if bytes > most { Err(GrammarError::TooLong { bytes, most }) } else { Ok(()) }
}

/// A text as Lark writes it.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// What is done with the parts of a schema that no mask can express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// They are errors.
    Exact,
    /// They are passed over: the text has the schema's shape, and may break a rule such as `uniqueItems` or a pattern that looks
    /// around.
    Shape,
}

/// A schema with our white space.
///
/// # Errors
/// A schema that is neither an object nor a boolean.
pub fn schema(value: &Value, strictness: Strictness) -> Result<Value, GrammarError> {
    let mut value = match value {
        Value::Object(_) => refs::plain(value),
        Value::Bool(true) => json!({}),
        Value::Bool(false) => return Err(GrammarError::Compile("the schema false describes nothing".into())),
        other => return Err(GrammarError::Compile(format!("a JSON schema is an object, not {other}"))),
    };
    let lenient = strictness == Strictness::Shape;
    if lenient {
        shape::relax(&mut value);
    }
    let whitespace_pattern = Some(WHITESPACE.into());
    let options = JsonCompileOptions {
        whitespace_pattern,
        lenient,
        coerce_one_of: lenient,
        json_allow_general_unicode_escapes: true,
        ..Default::default()
    };
    options.apply_to(&mut value);
    Ok(value)
}
