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
    let kinds: [(&str, &str, Fits); 2] = [(texts, "a text", Value::is_string), (numbers, "a number", Value::is_number)];
    for (paths, kind, fits) in kinds {
        for path in paths.split_whitespace() {
            let found = |(place, value): (String, &Value)| match value {
                Value::Null => format!("expected {what}: missing field `{place}` ({kind})"),
                value => {
                    let found: String = value.to_string().chars().take(60).collect();
                    format!("expected {what}: field {place}: expected {kind}, found {found}")
                }
            };
            field(record, "", path, fits).map_err(found)?;
        }
    }
    Ok(())
}

/// Whether a value is of the kind that is expected.
type Fits = fn(&Value) -> bool;

/// Looks along a path; where and what the value is that does not fit.
fn field<'a>(value: &'a Value, place: &str, path: &str, fits: Fits) -> Result<(), (String, &'a Value)> {
    let Some(step) = path.split('.').next().filter(|step| !step.is_empty()) else {
        return if fits(value) { Ok(()) } else { Err((place.into(), value)) };
    };
    let rest = path[step.len()..].trim_start_matches('.');
    let named = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    let Some(name) = step.strip_suffix("[]") else { return field(&value[step], &named(step), rest, fits) };
    let Value::Array(items) = &value[name] else { return Err((named(name), &value[name])) };
    items.iter().enumerate().try_for_each(|(i, item)| field(item, &format!("{}[{i}]", named(name)), rest, fits))
}
