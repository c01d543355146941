//! The `tojson` filter as Python's `json.dumps` writes it.
//!
//! Models are trained on tool descriptions that `transformers` wrote through `json.dumps`: a space after `,`
//! and `:`, keys in the order they came, nothing escaped for HTML. Another spelling is other tokens.

use std::fmt::Write;

use minijinja::value::{Kwargs, Value as Jinja, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::Value;

/// The keyword arguments of `json.dumps` that templates use.
struct Style {
    ensure_ascii: bool,
    /// One level of indentation; `None` writes one line.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// `value|tojson(ensure_ascii=…, indent=…, separators=…, sort_keys=…)`.
///
/// # Errors
/// An undefined value, or an argument of a wrong type.
pub fn tojson(value: Jinja, ensure_ascii: Option<Jinja>, kwargs: Kwargs) -> Result<Jinja, Error> {
    if value.kind() == ValueKind::Undefined {
        return Err(Error::new(ErrorKind::UndefinedError, "tojson: the value is undefined"));
    }
    let flag = |name: &str| Ok::<_, Error>(kwargs.get::<Option<Jinja>>(name)?.is_some_and(|v| v.is_true()));
    let indent = match kwargs.get::<Option<Jinja>>("indent")? {
        None => None,
        Some(width) if width.is_none() => None,
        Some(width) => Some(match (width.as_str(), width.as_i64()) {
            (Some(text), _) => text.to_string(),
            (_, Some(width)) => " ".repeat(width.clamp(0, 64) as usize),
            _ => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent must be a number or a string")),
        }),
    };
    let (item_separator, key_separator) = match kwargs.get::<Option<Jinja>>("separators")? {
        Some(pair) if !pair.is_none() => {
            let part = |i: usize| {
                let text = pair.get_item_by_index(i)?;
                text.as_str().map(str::to_string).ok_or_else(|| {
                    Error::new(ErrorKind::InvalidOperation, "tojson: separators must be a pair of strings")
                })
            };
            (part(0)?, part(1)?)
        }
        _ => ((if indent.is_some() { "," } else { ", " }).into(), ": ".into()),
    };
    let style = Style {
        ensure_ascii: ensure_ascii.is_some_and(|v| v.is_true()) || flag("ensure_ascii")?,
        indent,
        item_separator,
        key_separator,
        sort_keys: flag("sort_keys")?,
    };
    kwargs.assert_all_used()?;

    let tree = serde_json::to_value(&value).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    let mut text = String::new();
    style.write(&mut text, &tree, 0);
    Ok(Jinja::from(text))
}

impl Style {
    fn write(&self, out: &mut String, value: &Value, depth: usize) {
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => out.push_str(&float_repr(float)),
                _ => out.push_str(&number.to_string()),
            },
            Value::String(text) => self.write_string(out, text),
            Value::Array(items) => {
                self.write_items(out, ('[', ']'), depth, items.iter(), |style, out, item| {
                    style.write(out, item, depth + 1);
                });
            }
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                if self.sort_keys {
                    entries.sort_by_key(|(key, _)| *key);
                }
                self.write_items(out, ('{', '}'), depth, entries.into_iter(), |style, out, (key, item)| {
                    style.write_string(out, key);
                    out.push_str(&style.key_separator);
                    style.write(out, item, depth + 1);
                });
            }
        }
    }

    fn write_items<T>(
        &self,
        out: &mut String,
        (open, close): (char, char),
        depth: usize,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&Self, &mut String, T),
    ) {
        out.push(open);
        let empty = items.len() == 0;
        for (i, item) in items.enumerate() {
            if i > 0 {
                out.push_str(&self.item_separator);
            }
            self.new_line(out, depth + 1);
            write(self, out, item);
        }
        if !empty {
            self.new_line(out, depth);
        }
        out.push(close);
    }

    fn new_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn write_string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}").expect("writing to a String");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// A float as Python's `repr` writes it: shortest digits, an exponent below 1e-4 and from 1e16 on.
fn float_repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("`{:e}` has an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` has a decimal exponent");
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}
