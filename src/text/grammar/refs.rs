//! References inside of a schema, written so that llguidance finds them.
//!
//! It takes `#/a/b` as it stands. JSON pointers write `/` and `~` in a name as `~1` and `~0`, and URIs write other
//! characters as `%20`: such references get a name of their own under `$defs`.

use serde_json::{Map, Value};

/// The schema with references that need no unescaping; those that lead nowhere stay as they are, for the error.
pub fn plain(schema: &Value) -> Value {
    let mut escaped = Vec::new();
    collect(schema, &mut escaped);
    let targets: Vec<(String, &Value)> =
        escaped.into_iter().filter_map(|from| Some((from.to_owned(), target(schema, from)?))).collect();
    let mut out = schema.clone();
    if let (Some(fields), false) = (out.as_object_mut(), targets.is_empty()) {
        let defs = fields.entry("$defs").or_insert_with(|| Value::Object(Map::new()));
        if let Some(defs) = defs.as_object_mut() {
            defs.extend(targets.iter().enumerate().map(|(i, (_, value))| (name(i), (*value).clone())));
            rename(&mut out, &targets);
        }
    }
    out
}

fn name(number: usize) -> String {
    format!("qrun-reference-{number}")
}

/// All references with an escape in them, each once.
fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get("$ref")
                && to.starts_with("#/")
                && to.contains(['~', '%'])
                && !found.contains(&&**to)
            {
                found.push(to);
            }
            fields.values().for_each(|value| collect(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// What a reference leads to.
fn target<'a>(schema: &'a Value, reference: &str) -> Option<&'a Value> {
    let mut bytes = Vec::new();
    let mut rest = reference.strip_prefix('#')?.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let byte = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    schema.pointer(str::from_utf8(&bytes).ok()?)
}

fn rename(value: &mut Value, targets: &[(String, &Value)]) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get_mut("$ref")
                && let Some(number) = targets.iter().position(|(from, _)| from == to)
            {
                *to = format!("#/$defs/{}", name(number));
            }
            fields.values_mut().for_each(|value| rename(value, targets));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, targets)),
        _ => {}
    }
}
