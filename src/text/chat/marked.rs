//! Calls that are a name and its arguments between marks: a row for each way, and what all of them have in common.

use serde_json::Value;

use super::{head::Head, scan::skip};
use crate::text::grammar::quoted;

/// A way to write calls. A line break in a mark is white space that may be missing; before any mark there may be some.
#[derive(Debug, PartialEq, Eq)]
pub struct Form {
    /// What a template has that writes calls so.
    has: &'static [&'static str],
    /// Before a call.
    pub open: &'static str,
    /// Several calls may stand between `open` and `close`, not one only.
    pub section: bool,
    /// Before the name.
    pub name: &'static str,
    /// The name is written `functions.NAME:NUMBER`.
    pub numbered: bool,
    /// Between the name and the arguments.
    pub then: &'static str,
    /// What stands before a parameter's name, behind it, and behind its value: a text as it is, anything else as JSON.
    /// `None`: the arguments are one JSON object.
    pub parameter: Option<[&'static str; 3]>,
    /// Behind the arguments.
    pub end: &'static str,
    /// Behind a call.
    pub close: &'static str,
}

#[rustfmt::skip]
const PLAIN: Form = Form {
    has: &[], open: "", section: false, name: "", numbered: false, then: "", parameter: None, end: "", close: "",
};

/// The first whose marks a template has is the one.
#[rustfmt::skip]
static FORMS: &[Form] = &[
    // Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5; Seed-OSS.
    Form { has: &["<tool_call>", "<function=", "<parameter="], open: "<tool_call>\n", name: "<function=", then: ">\n",
        parameter: Some(["<parameter=", ">\n", "\n</parameter>\n"]), end: "</function>\n", close: "</tool_call>",
        ..PLAIN },
    Form { has: &["<seed:tool_call>", "<function=", "<parameter="], open: "<seed:tool_call>\n", name: "<function=",
        then: ">\n", parameter: Some(["<parameter=", ">", "</parameter>\n"]), end: "</function>\n",
        close: "</seed:tool_call>", ..PLAIN },
    // GLM from 4.5 on, Ling 3, Laguna.
    Form { has: &["<tool_call>", "<arg_key>", "<arg_value>"], name: "<tool_call>", then: "\n",
        parameter: Some(["<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"]), end: "</tool_call>", ..PLAIN },
    // MiniMax M2.
    Form { has: &["<minimax:tool_call>", "<invoke name="], open: "<minimax:tool_call>\n", section: true,
        name: "<invoke name=\"", then: "\">\n", parameter: Some(["<parameter name=\"", "\">", "</parameter>\n"]),
        end: "</invoke>\n", close: "</minimax:tool_call>", ..PLAIN },
    // DeepSeek R1 and V3; V3.1.
    Form { has: &["<｜tool▁calls▁begin｜>", "```json"], open: "<｜tool▁calls▁begin｜>", section: true,
        name: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", then: "\n```json\n", end: "\n```<｜tool▁call▁end｜>",
        close: "<｜tool▁calls▁end｜>", ..PLAIN },
    Form { has: &["<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"], open: "<｜tool▁calls▁begin｜>", section: true,
        name: "<｜tool▁call▁begin｜>", then: "<｜tool▁sep｜>", end: "<｜tool▁call▁end｜>", close: "<｜tool▁calls▁end｜>",
        ..PLAIN },
    // Kimi K2.
    Form { has: &["<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"], open: "<|tool_calls_section_begin|>",
        section: true, name: "<|tool_call_begin|>", numbered: true, then: "<|tool_call_argument_begin|>",
        end: "<|tool_call_end|>", close: "<|tool_calls_section_end|>", ..PLAIN },
];

impl Form {
    /// The way of a template.
    pub fn of(source: &str) -> Option<&'static Self> {
        FORMS.iter().find(|form| form.has.iter().all(|mark| source.contains(*mark)))
    }

    /// All marks.
    pub fn marks(&self) -> Vec<&'static str> {
        let marks = [self.open, self.name, self.then, self.end, self.close];
        marks.into_iter().chain(self.parameter.into_iter().flatten()).flat_map(pieces).collect()
    }

    /// What a call may begin with: some models leave out the first of them, and in a section it stands once. Either
    /// may be empty.
    pub fn starts(&self) -> [&'static str; 2] {
        [self.open, self.name].map(|mark| pieces(mark).next().unwrap_or_default())
    }

    /// What may stand behind the arguments.
    pub fn closes(&self) -> Vec<&'static str> {
        pieces(self.end).chain(pieces(self.close)).collect()
    }

    /// A call, to be shown to a model whose template does not say how one is written.
    pub fn example(&self) -> String {
        let Self { open, name, then, end, close, .. } = self;
        let called = if self.numbered { "functions.NAME:0" } else { "NAME" };
        let arguments = match self.parameter {
            Some([before, between, after]) => format!("{before}PARAMETER{between}VALUE{after}"),
            None => "ARGUMENTS".into(),
        };
        format!("{open}{name}{called}{then}{arguments}{end}{close}")
    }

    /// The beginning of a call up to its arguments, in a text that begins with one of [`Form::starts`].
    pub fn head(&self, text: &str) -> Head {
        self.call(text).unwrap_or_else(|none| none)
    }

    fn call(&self, text: &str) -> Result<Head, Head> {
        let at = eat(text, 0, self.open).unwrap_or(0);
        let at = skip(text, eat(text, at, self.name)?);
        let written = text[at..].find(|c: char| !in_name(c)).ok_or(Head::More)?;
        let mut name = &text[at..at + written];
        if self.numbered {
            name = name.strip_prefix("functions.").unwrap_or(name);
            name = name.rsplit_once(':').map_or(name, |(name, _)| name);
        }
        let end = skip(text, eat(text, at + written, self.then)?);
        let arguments = match self.parameter {
            None => {
                eat(text, end, "{")?;
                None
            }
            Some([open, ..]) => {
                let next = [open, self.end].map(|mark| eat(text, end, mark));
                if next.iter().all(Result::is_err) {
                    return Err(if next.contains(&Err(Head::More)) { Head::More } else { Head::None });
                }
                Some("{".into())
            }
        };
        Ok(Head::Call { name: name.into(), arguments, end })
    }

    /// The parameter that a text begins with: its name, its value as it is written, and where it ends.
    ///
    /// # Errors
    /// There is none, or not all of it yet.
    pub fn parameter<'t>(&self, text: &'t str) -> Result<(&'t str, &'t str, usize), Head> {
        let [open, between, close] = self.parameter.ok_or(Head::None)?;
        let start = eat(text, 0, open)?;
        let behind = pieces(between).next().unwrap_or_default();
        let key = start + text[start..].find(behind).ok_or(Head::More)?;
        let from = eat(text, key, between)?;
        let to = from + text[from..].find(close.trim()).ok_or(Head::More)?;
        let value = &text[from..to];
        // Line breaks of the marks; all others are the value's.
        let value = value.strip_prefix(&between[between.trim_end().len()..]).unwrap_or(value);
        let value = value.strip_suffix(&close[..close.len() - close.trim_start().len()]).unwrap_or(value);
        Ok((text[start..key].trim(), value, to + close.trim().len()))
    }
}

/// The parts of a mark between which there may be white space.
pub fn pieces(mark: &str) -> impl Iterator<Item = &str> {
    mark.split('\n').filter(|piece| !piece.is_empty())
}

/// What names of tools consist of.
pub fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.:/".contains(c)
}

/// Where a mark ends that begins at `at`.
fn eat(text: &str, mut at: usize, mark: &str) -> Result<usize, Head> {
    for piece in pieces(mark) {
        at = skip(text, at);
        let rest = &text[at..];
        if !rest.starts_with(piece) {
            return Err(if piece.starts_with(rest) { Head::More } else { Head::None });
        }
        at += piece.len();
    }
    Ok(at)
}

/// The JSON text of a parameter's value: what can be no JSON of a type that the schema lets through is a text.
pub fn json(text: &str, schema: &Value, root: &Value) -> String {
    let is_json = serde_json::from_str::<Value>(text.trim()).is_ok_and(|value| {
        let typed = !value.is_string() && fits(schema, root, kind(&value));
        typed || !fits(schema, root, "string")
    });
    if is_json { text.trim().into() } else { quoted(text) }
}

/// Whether a schema lets values of a JSON type through, as far as it says. `root`: where its references lead.
pub fn fits(schema: &Value, root: &Value, kind: &str) -> bool {
    let schema = resolved(schema, root);
    match ["anyOf", "oneOf"].into_iter().find_map(|word| schema[word].as_array()) {
        // Members of members are not looked at: they may go in a circle.
        Some(members) => members.iter().any(|member| names(resolved(member, root), kind)),
        None => names(schema, kind),
    }
}

/// Whether the schema itself lets a type through.
fn names(schema: &Value, kind: &str) -> bool {
    let same = |name: &Value| name == kind || kind == "number" && name == "integer";
    match (&schema["type"], &schema["enum"]) {
        (Value::Array(several), _) => several.iter().any(same),
        (Value::Null, Value::Array(values)) => values.iter().any(|value| self::kind(value) == kind),
        (Value::Null, _) => true,
        (one, _) => same(one),
    }
}

/// The texts of the values that a schema lists, if it does.
pub fn choices(schema: &Value, root: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let values = resolved(schema, root)["enum"].as_array().filter(|values| !values.is_empty())?;
    Some(values.iter().map(text).collect())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The schema that a reference leads to, or the schema itself.
pub fn resolved<'s>(mut schema: &'s Value, root: &'s Value) -> &'s Value {
    // References may go in a circle, too.
    for _ in 0..8 {
        let target = schema["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?));
        schema = target.unwrap_or(schema);
    }
    schema
}
