//! Prefetching of weights, which are read once and in order.

use super::layout::Line;

/// How far ahead of their use weights are prefetched: what the processor's own prefetcher does not reach over a few blocks of
/// arithmetic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead {
    /// Into the first-level cache.
    pub(super) near: usize,
    /// Into the second-level cache before; 0, what is read now, is in the caches already.
    pub(super) far: usize,
}

impl Ahead {
    /// Prefetches what comes some lines after `p`, whatever lies there: tiles and rows follow each other. Without a branch, or the
    /// compiler makes each kernel twice.
    #[inline(always)]
    pub(super) fn stream(self, p: *const u8, lines: usize) {
        for i in 0..lines {
            prefetch_far(p.wrapping_add(i * Line::BYTES + self.far));
            prefetch(p.wrapping_add(i * Line::BYTES + self.near));
        }
    }
}

/// Prefetches the line at `p` into the second-level cache, whatever lies there.
#[inline(always)]
pub fn prefetch_far(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every 64-bit ARM has the instruction, and it may be given any address.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) p, options(readonly, nostack, preserves_flags))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// The same into the first-level cache.
#[inline(always)]
pub(super) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every 64-bit ARM has the instruction, and it may be given any address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) p, options(readonly, nostack, preserves_flags))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}
