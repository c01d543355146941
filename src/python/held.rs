//! What Python holds until it is closed, in the process that opened it.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pyo3::prelude::*;

use crate::{answer, errors::Error};

/// What can be held.
pub trait Open: Send + Sync + 'static {
    /// As errors call it, after "an".
    const NAME: &'static str;
    /// Ends what runs. The memory is freed with the last call that has it.
    fn end(&self) {}
}

/// Something open, which is closed once, and left alone in a process that was forked from its own.
pub struct Held<T: Open> {
    /// The process that has the threads.
    process: u32,
    open: Mutex<Option<Arc<T>>>,
}

impl<T: Open> Held<T> {
    /// In this process.
    pub fn new(open: T) -> Self {
        Self { process: std::process::id(), open: Mutex::new(Some(Arc::new(open))) }
    }

    /// # Errors
    /// It is closed, or belongs to another process.
    pub fn get(&self) -> PyResult<Arc<T>> {
        if self.process != std::process::id() {
            return Err(answer::forked(T::NAME));
        }
        self.lock().clone().ok_or_else(|| Error::new_err(format!("this {} is closed", T::NAME)))
    }

    /// Ends it, and frees the memory once the calls that run have ended.
    pub fn close(&self, py: Python) {
        if self.process == std::process::id() {
            let open = self.lock().take();
            py.detach(|| end(open));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Open> Drop for Held<T> {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != std::process::id() {
            // After a fork there is no thread to wait for, and whatever was locked then stays so.
            mem::forget(open);
        } else if open.is_some() {
            Python::try_attach(|py| py.detach(|| end(open)));
        }
    }
}

fn end<T: Open>(open: Option<Arc<T>>) {
    open.iter().for_each(|open| open.end());
}
