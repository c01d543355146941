//! Values of flags: what one must look like, and what it is then.

use std::{ffi::OsStr, path::PathBuf};

use crate::engine::DevicePreference;
use qrun_models::KvType;

use crate::cli::values;

/// What follows a flag on the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Takes {
    /// Nothing: a switch.
    Nothing,
    /// One value: its name in the help and the check that it must pass.
    One(&'static str, Check),
    /// One of these words, or nothing, which means the first.
    Maybe(&'static [&'static str]),
    /// Two values (only flags that qrun refuses).
    Two(&'static str),
}

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Check {
    /// Any text.
    Text,
    /// A path.
    File,
    /// A whole number in a range.
    Whole(i64, i64),
    /// A finite number in a range.
    Real(f64, f64),
    /// Where a model runs.
    Device,
    /// A type of the KV cache.
    CacheType,
    /// A token and what is added to its logit.
    Bias,
    /// Names of samplers in their order.
    Samplers,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number, or one of these words.
    WholeOr(i64, i64, &'static [&'static str]),
}

/// A value that has passed its check.
#[derive(Debug, Clone)]
pub enum Value {
    Text(String),
    File(PathBuf),
    Whole(i64),
    Real(f64),
    Device(DevicePreference),
    CacheType(KvType),
    Bias((u32, f32)),
    Samplers(Vec<&'static str>),
}

/// Each of these is of use behind the check that makes it (a test goes through all rows); elsewhere it is empty.
impl Value {
    pub fn text(self) -> String {
        if let Value::Text(text) = self { text } else { String::new() }
    }
    pub fn file(self) -> PathBuf {
        if let Value::File(path) = self { path } else { PathBuf::new() }
    }
    pub fn whole(self) -> i64 {
        if let Value::Whole(n) = self { n } else { 0 }
    }
    /// A whole number for a parameter that has fewer bits.
    pub fn int(self) -> i32 {
        self.whole().clamp(i32::MIN.into(), i32::MAX.into()) as i32
    }
    /// A whole number that is a count: 0 where it is negative.
    pub fn count(self) -> usize {
        self.whole().try_into().unwrap_or(0)
    }
    pub fn real(self) -> f32 {
        if let Value::Real(x) = self { x as f32 } else { 0.0 }
    }
    /// `on` or `off`; anything else is neither.
    pub fn choice(self) -> Option<bool> {
        match self.text().as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }
    pub fn on(self) -> bool {
        self.choice() == Some(true)
    }
    pub fn device(self) -> DevicePreference {
        if let Value::Device(device) = self { device } else { DevicePreference::Auto }
    }
    pub fn cache_type(self) -> Option<KvType> {
        if let Value::CacheType(ty) = self { Some(ty) } else { None }
    }
    pub fn bias(self) -> Option<(u32, f32)> {
        if let Value::Bias(bias) = self { Some(bias) } else { None }
    }
    pub fn samplers(self) -> Option<Vec<&'static str>> {
        if let Value::Samplers(names) = self { Some(names) } else { None }
    }
}

impl Takes {
    /// The value that `given` is.
    ///
    /// # Errors
    /// What is expected in its place.
    pub fn read(self, given: &OsStr) -> Result<Value, String> {
        let text = || given.to_str().ok_or_else(|| "expected UTF-8".to_owned());
        match self {
            Takes::One(_, Check::File) => Ok(Value::File(given.into())),
            Takes::One(_, check) => check.read(text()?),
            Takes::Nothing => word(&["on", "off"], text()?),
            Takes::Maybe(words) => word(words, text()?),
            Takes::Two(_) => Ok(Value::Text(text()?.into())),
        }
    }
}

impl Check {
    fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Check::Text => Ok(Value::Text(text.into())),
            Check::File => Ok(Value::File(text.into())),
            Check::Whole(min, max) => whole((min, max), text).map(Value::Whole),
            Check::Real(min, max) => real((min, max), text).map(Value::Real),
            Check::Device => text.parse().map(Value::Device),
            Check::CacheType => text.parse().map(Value::CacheType),
            Check::Bias => values::logit_bias(text).map(Value::Bias),
            Check::Samplers => values::samplers(text).map(Value::Samplers),
            Check::Word(words) => word(words, text),
            Check::WholeOr(min, max, words) => {
                let number = whole((min, max), text).map(|n| Value::Text(n.to_string()));
                number.or_else(|n| word(words, text).map_err(|_| format!("{n}, or {}", words.join(", "))))
            }
        }
    }
}

/// A whole number in the range.
fn whole((min, max): (i64, i64), text: &str) -> Result<i64, String> {
    let upper = if max == i64::from(i32::MAX) { String::new() } else { format!(" to {max}") };
    let expected = format!("expected a whole number from {min}{upper}");
    text.trim().parse().ok().filter(|n| (min..=max).contains(n)).ok_or(expected)
}

/// A finite number in the range; NaN and infinities are not.
fn real((min, max): (f64, f64), text: &str) -> Result<f64, String> {
    let expected = if min.abs() >= 1e6 {
        "expected a finite number".into()
    } else if max >= 1e6 {
        format!("expected a number from {min}")
    } else {
        format!("expected a number from {min} to {max}")
    };
    text.trim().parse::<f64>().ok().filter(|n| (min..=max).contains(n)).ok_or(expected)
}

/// One of these words, in any case.
fn word(words: &[&'static str], text: &str) -> Result<Value, String> {
    let found = words.iter().find(|w| w.eq_ignore_ascii_case(text));
    found.map(|w| Value::Text((*w).into())).ok_or_else(|| format!("expected {}", words.join(", ")))
}
