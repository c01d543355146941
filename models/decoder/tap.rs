//! Intermediate results on their way to the host: after each named stage the stream is waited for and the values are
//! copied out. For finding the first tensor that differs, not for speed.

use std::cell::RefCell;

use qrun_cuda::{Gpu, Pinned, Ptr, Result, Stream};

use crate::Tap;

/// Who listens, and page-locked memory for the largest result so far.
pub struct Probe(RefCell<Listener>);

struct Listener {
    tap: Tap,
    values: Pinned<f32>,
}

impl Probe {
    /// Page-locked memory grows with what is handed on.
    ///
    /// # Errors
    /// The driver's, as of [`Pinned::new`].
    pub fn new(gpu: &std::sync::Arc<Gpu>, tap: Tap) -> Result<Self> {
        Ok(Self(RefCell::new(Listener { tap, values: Pinned::new(gpu, 0)? })))
    }

    /// Hands `len` values on, which what is queued in the stream so far has left on the device, times a factor.
    ///
    /// # Errors
    /// The driver's: of the copy, of what was queued before it, or of more page-locked memory.
    pub fn hand_on(
        &self,
        il: Option<usize>,
        name: &'static str,
        stream: &Stream,
        (at, len, factor): (Ptr<f32>, usize, f32),
    ) -> Result<()> {
        let mut listener = self.0.borrow_mut();
        listener.fetch(stream, at, len)?;
        let Listener { tap, values } = &mut *listener;
        let scaled: Vec<f32> = values[..len].iter().map(|x| factor * x).collect();
        tap(il, name, &scaled);
        Ok(())
    }

    /// Hands the sum of values on the device and those that were handed on last on, the latter times a factor, the sum times
    /// another one.
    ///
    /// # Errors
    /// As [`Probe::hand_on`].
    pub fn hand_on_sum(
        &self,
        il: usize,
        name: &'static str,
        stream: &Stream,
        (at, len, [factor, of_sum]): (Ptr<f32>, usize, [f32; 2]),
    ) -> Result<()> {
        let mut listener = self.0.borrow_mut();
        let last = listener.values[..len].to_vec();
        listener.fetch(stream, at, len)?;
        let values = listener.values[..len].iter().zip(last);
        let sum: Vec<f32> = values.map(|(x, last)| of_sum * (x + factor * last)).collect();
        (listener.tap)(Some(il), name, &sum);
        Ok(())
    }
}

impl Listener {
    fn fetch(&mut self, stream: &Stream, at: Ptr<f32>, len: usize) -> Result<()> {
        if self.values.len() < len {
            self.values = Pinned::new(stream.gpu(), len)?;
        }
        // SAFETY: what a step hands on are parts of the arena with as many values (see `decoder`).
        unsafe { stream.copy_out(&mut self.values, at, len)? };
        stream.synchronize()
    }
}
