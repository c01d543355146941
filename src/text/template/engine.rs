//! minijinja, set up as `transformers` sets up Jinja2 for chat templates.

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use fancy_regex::Regex;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, StringInput, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter, filters};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::{
    TemplateError, json,
    sandbox::{LimitExceeded, checkpoint},
};
use crate::clock;

/// Instructions of one rendering; a conversation of 1,000 turns takes about 50,000.
const FUEL: u64 = 2_000_000;
/// The widest field that `format` and `indent` may be asked for. Python would allocate any.
const MAX_WIDTH: i64 = 1000;

/// A template that is to be compiled and run.
pub struct Program {
    pub name: Arc<str>,
    pub source: Arc<str>,
    pub now: SystemTime,
}

/// What `raise_exception` was called with.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// Compiles the program and throws the result away.
///
/// # Errors
/// [`TemplateError::Syntax`] with the line.
pub fn check(program: &Program) -> Result<(), TemplateError> {
    let environment = environment(program);
    environment.template_from_str(&program.source).map(drop).map_err(|error| program.explain(&error))
}

/// Runs the program on a tree of variables.
///
/// # Errors
/// [`TemplateError::Syntax`]; [`TemplateError::Refused`] where it calls `raise_exception`, [`TemplateError::Stopped`]
/// where it reaches a limit, [`TemplateError::Failed`] where it fails otherwise.
pub fn render(program: &Program, context: &serde_json::Value) -> Result<String, TemplateError> {
    let environment = environment(program);
    let template = environment.template_from_str(&program.source).map_err(|error| program.explain(&error))?;
    template.render(Value::from(Serde(context))).map_err(|error| program.explain(&error))
}

/// Templates mark what the assistant said with `{% generation %}` for training; rendering ignores the mark.
pub fn plain_generation_tags(source: &str) -> String {
    static OPEN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*generation\s*([-+]?)%\}").expect("a literal"));
    static CLOSE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*endgeneration\s*([-+]?)%\}").expect("a literal"));
    let opened = OPEN.replace_all(source, "{%$1 if true $2%}");
    CLOSE.replace_all(&opened, "{%$1 endif $2%}").into_owned()
}

impl Program {
    fn explain(&self, error: &Error) -> TemplateError {
        let name = self.name.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            if let Some(Raised(message)) = cause.downcast_ref() {
                return TemplateError::Refused { name, message: message.clone() };
            }
            if let Some(limit) = cause.downcast_ref::<LimitExceeded>() {
                return TemplateError::Stopped { name, reason: limit.to_string() };
            }
            source = cause.source();
        }
        let line = error.line().map_or(String::new(), |line| format!("line {line}: "));
        let detail = match error.detail() {
            Some(detail) => format!("{line}{}: {detail}", error.kind()),
            None => format!("{line}{}", error.kind()),
        };
        match error.kind() {
            ErrorKind::SyntaxError => TemplateError::Syntax { name, detail },
            ErrorKind::OutOfFuel => TemplateError::Stopped { name, reason: "it runs for too many steps".into() },
            _ => TemplateError::Failed { name, detail },
        }
    }
}

fn environment(program: &Program) -> Environment<'static> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build().expect("the standard delimiters"));
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(|out, state, value| {
        within_limits()?;
        escape_formatter(out, state, value)
    });
    environment.set_unknown_method_callback(method);
    // Jinja2 iterates over nothing where there is `none`: templates ask `tools is iterable`.
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter("format", format);
    environment.add_filter("indent", indent);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    let now = program.now;
    environment.add_function("strftime_now", move |format: String| {
        clock::strftime(now, &format).map_err(|reason| Error::new(ErrorKind::InvalidOperation, reason))
    });
    environment
}

/// An error where the sandbox says that a limit is near.
fn within_limits() -> Result<(), Error> {
    checkpoint().map_err(|limit| Error::new(ErrorKind::InvalidOperation, "stopped").with_source(limit))
}

/// Python's methods; those that minijinja's own set lacks, and `format` within [`MAX_WIDTH`].
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    within_limits()?;
    match (value.as_str(), name, args) {
        (Some(text), "removeprefix", [prefix]) if prefix.as_str().is_some() => {
            Ok(text.strip_prefix(prefix.as_str().unwrap_or_default()).unwrap_or(text).into())
        }
        (Some(text), "removesuffix", [suffix]) if suffix.as_str().is_some() => {
            Ok(text.strip_suffix(suffix.as_str().unwrap_or_default()).unwrap_or(text).into())
        }
        (Some(text), "title", []) => Ok(title(text).into()),
        (Some(text), "format", _) => {
            check_widths(text.split('{').skip(1).map(brace_spec))?;
            unknown_method_callback(state, value, name, args)
        }
        _ => unknown_method_callback(state, value, name, args),
    }
}

/// Python's `str.title`: a capital after everything that is not a letter.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for c in text.chars() {
        if in_word {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        in_word = c.is_alphabetic();
    }
    out
}

/// Jinja2 counts an undefined value as empty.
fn length(value: &Value) -> Result<usize, Error> {
    match value.len() {
        _ if value.kind() == ValueKind::Undefined => Ok(0),
        Some(length) => Ok(length),
        None => Err(Error::new(ErrorKind::InvalidOperation, format!("a value of type {} has no length", value.kind()))),
    }
}

/// Python's `%` as a filter, within [`MAX_WIDTH`].
fn format(state: &mut State, text: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    check_widths(text.as_str().unwrap_or_default().split('%').skip(1).map(printf_spec))?;
    filters::format(state, text, args)
}

fn indent(
    text: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let asked = width.map(|w| w as i64).or(kwargs.peek::<Option<i64>>("width").unwrap_or(None)).unwrap_or(0);
    if asked > MAX_WIDTH {
        return Err(too_wide(asked));
    }
    filters::indent(text, width, first, blank, kwargs)
}

/// What follows a `%` up to its type: name, flags, width, precision. Only the numbers in it matter here.
fn printf_spec(rest: &str) -> &str {
    let rest = rest.strip_prefix('(').and_then(|named| named.split_once(')')).map_or(rest, |(_, spec)| spec);
    let end = rest.find(|c: char| !"#0-+ .123456789".contains(c)).unwrap_or(rest.len());
    &rest[..end]
}

/// What follows the `:` in a `{field:spec}`.
fn brace_spec(rest: &str) -> &str {
    let field = rest.split('}').next().unwrap_or_default();
    field.split_once(':').map_or("", |(_, spec)| spec)
}

/// Refuses widths and precisions above [`MAX_WIDTH`]: Python and minijinja would allocate any.
fn check_widths<'a>(specs: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    for spec in specs {
        for digits in spec.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
            match digits.parse() {
                Ok(width) if width <= MAX_WIDTH => {}
                width => return Err(too_wide(width.unwrap_or(i64::MAX))),
            }
        }
    }
    Ok(())
}

fn too_wide(width: i64) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a width of {width}; at most {MAX_WIDTH} is accepted"))
}
