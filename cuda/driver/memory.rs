//! Device memory: one arena, taken at load.
//!
//! A [`ArenaLayout`] hands out the parts of an arena. The same carving runs twice: first from address zero, to learn the
//! size (that is the memory plan), then from the arena's address. So the plan and what is taken are equal.

use std::sync::Arc;

use cudarc::driver::sys;

use super::{Gpu, Ptr};
use crate::error::{DeviceError, Result, check};

/// Parts of an arena begin at multiples of this.
const ALIGNMENT: u64 = 256;
/// Bytes behind each part that belong to none: where a device is checked, an overrun shows.
const GAP: u64 = 16;

/// A named part of an arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it holds, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Bytes from the start of the arena.
    pub offset: u64,
    /// Bytes in use, without the padding behind.
    pub bytes: u64,
}

/// Hands out consecutive parts from an address on.
#[derive(Debug, Default)]
pub struct ArenaLayout {
    base: u64,
    used: u64,
    parts: Vec<Part>,
}

impl ArenaLayout {
    /// Room for `len` elements.
    pub fn take<T>(&mut self, name: impl Into<String>, len: usize) -> Ptr<T> {
        let (offset, bytes) = (self.used, (len * size_of::<T>()) as u64);
        self.parts.push(Part { name: name.into(), offset, bytes });
        self.used = (offset + bytes + GAP).next_multiple_of(ALIGNMENT);
        Ptr::new(self.base + offset)
    }
    /// Bytes handed out so far.
    pub fn used(&self) -> u64 {
        self.used
    }
    /// What was handed out.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}

/// One allocation of device memory, divided once.
pub struct Arena {
    gpu: Arc<Gpu>,
    base: u64,
    bytes: u64,
    parts: Vec<Part>,
}

impl Arena {
    /// Allocates what `lay_out` takes, and returns what it makes of it. `lay_out` runs twice and must take the same parts.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] where it does not fit.
    pub fn new<R>(gpu: &Arc<Gpu>, lay_out: impl Fn(&mut ArenaLayout) -> R) -> Result<(Self, R)> {
        let mut plan = ArenaLayout::default();
        lay_out(&mut plan);
        let wanted = plan.used();
        let free = gpu.free_memory()?;
        let mut base = 0;
        // SAFETY: a context is bound (`free_memory` did it); one address is written.
        let code = unsafe { sys::cuMemAlloc_v2(&mut base, wanted.max(1) as usize) };
        if code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(DeviceError::Memory { wanted, free });
        }
        check(code, || format!("cuMemAlloc({wanted} bytes)"))?;
        let mut arena = Self { gpu: gpu.clone(), base, bytes: wanted, parts: Vec::new() };
        let mut layout = ArenaLayout { base, ..ArenaLayout::default() };
        let made = lay_out(&mut layout);
        assert_eq!(layout.parts, plan.parts, "the plan is what is taken");
        arena.parts = layout.parts;
        Ok((arena, made))
    }

    /// Device address of the first byte.
    pub fn address(&self) -> u64 {
        self.base
    }
    /// Size of the allocation.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Name, offset and size of each part, in the order in which they were taken.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
    /// Address of a part, which holds `T`s; `None` without such a part.
    pub fn part<T>(&self, name: &str) -> Option<Ptr<T>> {
        let part = self.parts.iter().find(|part| part.name == name)?;
        Some(Ptr::new(self.base + part.offset))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: allocated by `new`, freed once.
            let _ = unsafe { sys::cuMemFree_v2(self.base) };
        }
    }
}
