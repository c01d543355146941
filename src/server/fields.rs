//! The fields of a JSON body, read by name. What is wrong with one is a 400 that names it.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::ApiError;

/// An object whose fields are read by name; `null` is as good as absent.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// A field that is there.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }
    /// A string.
    ///
    /// # Errors
    /// 400: it is no string.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.typed(name, "a string", Value::as_str)
    }
    /// True or false; 0 and 1 count.
    ///
    /// # Errors
    /// 400: it is something else.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "true or false", |value| match value.as_i64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => value.as_bool(),
        })
    }
    /// A whole number in a range; `3.0` is one.
    ///
    /// # Errors
    /// 400: it is no whole number, or outside of `range`.
    pub fn whole(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        let expected = || match (*range.start(), *range.end()) {
            (i64::MIN, i64::MAX) => "a whole number".to_owned(),
            (from, i64::MAX) => format!("a whole number from {from} on"),
            (from, to) => format!("a whole number from {from} to {to}"),
        };
        let Some(value) = self.get(name) else { return Ok(None) };
        let real = || value.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64);
        let whole = value.as_i64().or_else(real).filter(|n| range.contains(n));
        whole.map(Some).ok_or_else(|| ApiError::field(name, &expected(), brief(value)))
    }
    /// A finite number in a range.
    ///
    /// # Errors
    /// 400: it is no number, or outside of `range`.
    pub fn real(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f32>, ApiError> {
        let expected = || format!("a number from {} to {}", range.start(), range.end());
        let Some(value) = self.get(name) else { return Ok(None) };
        let real = value.as_f64().filter(|x| range.contains(x)).map(|x| x as f32);
        real.map(Some).ok_or_else(|| ApiError::field(name, &expected(), brief(value)))
    }
    /// A list.
    ///
    /// # Errors
    /// 400: it is no list.
    pub fn list(&self, name: &str) -> Result<Option<&'a [Value]>, ApiError> {
        self.typed(name, "a list", |value| value.as_array().map(Vec::as_slice))
    }
    /// An object.
    ///
    /// # Errors
    /// 400: it is no object.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ApiError> {
        self.typed(name, "an object", |value| value.as_object().map(Fields))
    }
    /// A field that must be there; `found` is what was read under `name`.
    ///
    /// # Errors
    /// 400: there is none; or what was wrong with it.
    pub fn required<T>(&self, name: &str, found: Result<Option<T>, ApiError>) -> Result<T, ApiError> {
        found?.ok_or_else(|| ApiError::missing(name))
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| ApiError::field(name, expected, brief(value)))
    }
}

/// A value as an error shows it: short ones whole, others by their kind.
pub fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::String(text) if text.chars().count() > 40 => format!("a string of {} characters", text.chars().count()),
        value => value.to_string(),
    }
}
