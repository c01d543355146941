//! Keywords that Python has gathered in a dict, read with their types.

use std::{ops::RangeInclusive, str::FromStr};

use pyo3::{FromPyObject, prelude::*, types::PyDict};

use crate::{
    errors::{usage, wrong_type},
    work,
};

/// Most threads and most sequences, as the program's flags have it.
pub const MANY: usize = 1024;

/// A dict of keywords; None is as good as a missing one.
pub struct Fields<'a, 'py>(pub &'a Bound<'py, PyDict>);

impl<'py> Fields<'_, 'py> {
    /// The value itself.
    ///
    /// # Errors
    /// What Python raises as it looks the key up.
    pub fn raw(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// The value as a `T`; `expected` names that for people.
    ///
    /// # Errors
    /// `TypeError`: a value of another type.
    pub fn get<T>(&self, name: &str, expected: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.raw(name)? else { return Ok(None) };
        match value.extract::<T>() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(wrong_type(name, expected, value.repr()?)),
        }
    }

    /// A whole number, where given.
    ///
    /// # Errors
    /// `TypeError`: something else, or a number beyond 64 bits.
    pub fn whole(&self, name: &str) -> PyResult<Option<i64>> {
        self.get(name, "a whole number")
    }
    /// A count, where given, in `range`.
    ///
    /// # Errors
    /// It is not in `range`, as the program's flag of the same meaning has it.
    pub fn count(&self, name: &str, range: RangeInclusive<usize>) -> PyResult<Option<usize>> {
        let Some(found) = self.whole(name)? else { return Ok(None) };
        match usize::try_from(found) {
            Ok(n) if range.contains(&n) => Ok(Some(n)),
            _ if *range.end() == usize::MAX => {
                Err(usage(format!("{name}: expected {} or more, found {found}", range.start())))
            }
            _ => Err(usage(format!("{name}: expected {} to {}, found {found}", range.start(), range.end()))),
        }
    }
    /// Threads, where given and not 0. The bound is the program's: each is one of the system's.
    ///
    /// # Errors
    /// As of [`Self::count`].
    pub fn threads(&self) -> PyResult<Option<usize>> {
        Ok(self.count("n_threads", 0..=MANY)?.filter(|&n| n > 0))
    }
    /// A number, where given.
    ///
    /// # Errors
    /// `TypeError`: something else.
    pub fn real(&self, name: &str) -> PyResult<Option<f32>> {
        self.get(name, "a number")
    }
    /// A flag, off where it is not given.
    ///
    /// # Errors
    /// `TypeError`: neither True nor False.
    pub fn flag(&self, name: &str) -> PyResult<bool> {
        Ok(self.get::<bool>(name, "True or False")?.unwrap_or(false))
    }
    /// A text, where given.
    ///
    /// # Errors
    /// `TypeError`: something else.
    pub fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.get(name, "a text")
    }
    /// What a text stands for, where given.
    ///
    /// # Errors
    /// It stands for none of the values.
    pub fn parsed<T: FromStr<Err = String>>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse::<T>().map(Some).map_err(|expected| usage(format!("{name}: {expected}, found {text:?}")))
    }
}

/// A callback that hears how far something is, where there is one.
pub struct Progress(Option<Py<PyAny>>);

impl Progress {
    /// The keyword `progress`.
    ///
    /// # Errors
    /// `TypeError`: it cannot be called.
    pub fn of(fields: &Fields) -> PyResult<Self> {
        match fields.raw("progress")? {
            Some(found) if !found.is_callable() => {
                Err(wrong_type("progress", "a function of two numbers", found.repr()?))
            }
            found => Ok(Self(found.map(Bound::unbind))),
        }
    }

    /// Calls it. What it raises ends nothing; Python's hook for such errors hears of it.
    pub fn tell(&self, done: u64, total: u64) {
        if let Some(call) = &self.0 {
            work::in_python(|py| {
                if let Err(error) = call.call1(py, (done, total)) {
                    error.write_unraisable(py, None);
                }
            });
        }
    }
}
