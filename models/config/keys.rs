//! Keys of one architecture in one file, checked for type and range.

use qrun_quant::{Error, Gguf, Result, gguf::Value};

/// Sizes that no real model exceeds; they keep products of sizes far from overflow.
pub const LIMIT: usize = 1 << 24;

/// The keys of a file that begin with the name of its architecture.
pub struct Keys<'a> {
    pub g: &'a Gguf,
    pub arch: &'static str,
}

impl Keys<'_> {
    /// The whole name of a key.
    pub fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }
    pub fn error(&self, name: &str, expected: &str, found: impl ToString) -> Error {
        self.g.error(format!("key {}", self.key(name)), expected, found.to_string())
    }
    pub fn absent(&self, name: &str) -> Error {
        self.error(name, "a value (the model cannot run without it)", "no such key")
    }

    /// A size: 1 or more.
    ///
    /// # Errors
    /// It is missing, no unsigned integer, or not from 1 to [`LIMIT`].
    pub fn size(&self, name: &str) -> Result<usize> {
        self.optional_size(name)?.ok_or_else(|| self.absent(name))
    }

    /// The same; `None` where there is no such key.
    ///
    /// # Errors
    /// It is no unsigned integer, or not from 1 to [`LIMIT`].
    pub fn optional_size(&self, name: &str) -> Result<Option<usize>> {
        match self.g.u64(&self.key(name))? {
            Some(n) if n == 0 || n > LIMIT as u64 => Err(self.error(name, &format!("a number from 1 to {LIMIT}"), n)),
            other => Ok(other.map(|n| n as usize)),
        }
    }

    /// A size of each of `n` blocks: an array of as many, or one number for all.
    ///
    /// # Errors
    /// The array has another length, or a size is no whole number from 1 to [`LIMIT`].
    pub fn optional_sizes(&self, name: &str, n: usize) -> Result<Option<Vec<usize>>> {
        self.sizes_from(1, name, n)
    }

    /// The same, `least` or more of each where blocks differ.
    ///
    /// # Errors
    /// The array has another length, or a size is no whole number from `least` to [`LIMIT`]; a number that stands for
    /// all is from 1 on.
    pub fn sizes_from(&self, least: usize, name: &str, n: usize) -> Result<Option<Vec<usize>>> {
        let Some(values) = self.numbers(name, n)? else {
            return Ok(self.optional_size(name)?.map(|size| vec![size; n]));
        };
        let size = |(il, &value): (usize, &f64)| {
            let wrong = value.fract() != 0.0 || !(least as f64..=LIMIT as f64).contains(&value);
            let expected = || format!("a number from {least} to {LIMIT} for layer {il}");
            if wrong { Err(self.error(name, &expected(), value)) } else { Ok(value as usize) }
        };
        values.iter().enumerate().map(size).collect::<Result<_>>().map(Some)
    }

    /// An array of `n` numbers (or booleans, 0 and 1); `None` where the key is no array.
    ///
    /// # Errors
    /// The array has another length, or elements that are no numbers.
    pub fn numbers(&self, name: &str, n: usize) -> Result<Option<Vec<f64>>> {
        let Some(value @ Value::Array(array)) = self.g.get(&self.key(name)) else { return Ok(None) };
        let numbers: Vec<f64> = array.numbers().take(n + 1).collect();
        let expected = || format!("a number or {n} values, one for each block");
        if numbers.len() == n { Ok(Some(numbers)) } else { Err(self.error(name, &expected(), value.describe())) }
    }

    /// A number; `None` where there is no such key.
    ///
    /// # Errors
    /// It is no number, or not finite.
    pub fn f32(&self, name: &str) -> Result<Option<f32>> {
        match self.g.f32(&self.key(name))? {
            Some(v) if !v.is_finite() => Err(self.error(name, "a finite number", v)),
            other => Ok(other),
        }
    }

    /// A positive number; 0 stands for none.
    ///
    /// # Errors
    /// It is no number, not finite, or negative.
    pub fn positive(&self, name: &str) -> Result<Option<f32>> {
        match self.f32(name)? {
            Some(v) if v < 0.0 => Err(self.error(name, "a positive number", v)),
            other => Ok(other.filter(|&v| v != 0.0)),
        }
    }
}
