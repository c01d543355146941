//! Fields of records, by name: reading them, and refusing a record that lacks some.

use serde_json::Value;

/// The same object with more fields behind its own.
pub fn extended(mut record: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (record.as_object_mut(), more) {
        fields.extend(more);
    }
    record
}

/// A number of a row.
pub fn number(row: &Value, field: &str) -> Option<f64> {
    row[field].as_f64()
}

/// The quotient of two numbers of a row, such as a speed over its limit; `None` without one of them.
pub fn quotient(row: &Value, [above, below]: [&str; 2]) -> Option<f64> {
    Some(number(row, above)? / number(row, below)?).filter(|share| share.is_finite())
}

/// A text of a row; empty where it has none.
pub fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

/// The items of a list; none where it is none.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The first item of each key, in their order.
pub fn distinct<T, K: PartialEq>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    items.into_iter().fold(Vec::new(), |mut firsts, item| {
        if firsts.iter().all(|first| key(first) != key(&item)) {
            firsts.push(item);
        }
        firsts
    })
}

/// Refuses a record without some fields: paths as `machine.cpu`, `rows[].cols` of texts and of numbers, with spaces between.
///
/// # Errors
/// What was expected, and what was found where.
pub fn check(record: &Value, what: &str, texts: &str, numbers: &str) -> Result<(), String> {
    let is_text: fn(&Value) -> bool = Value::is_string;
    for (paths, kind, fits) in [(texts, "a text", is_text), (numbers, "a number", Value::is_number)] {
        if let Some((place, value)) = paths.split_whitespace().find_map(|path| misfit(record, "", path, fits)) {
            let found: String = value.to_string().chars().take(60).collect();
            return Err(match value {
                Value::Null => format!("expected {what}: missing field `{place}` ({kind})"),
                _ => format!("expected {what}: field {place}: expected {kind}, found {found}"),
            });
        }
    }
    Ok(())
}

/// The first value along a path that does not fit, or is no list where one is expected, and its place.
fn misfit<'a>(value: &'a Value, place: &str, path: &str, fits: fn(&Value) -> bool) -> Option<(String, &'a Value)> {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = step.trim_end_matches("[]");
    let (place, value) = (format!("{place}{name}"), &value[name]);
    let inside = |value, place: String| match rest {
        "" if fits(value) => None,
        "" => Some((place, value)),
        _ => misfit(value, &format!("{place}."), rest, fits),
    };
    match value {
        _ if name == step => inside(value, place),
        Value::Array(items) => items.iter().enumerate().find_map(|(i, item)| inside(item, format!("{place}[{i}]"))),
        _ => Some((place, value)),
    }
}
