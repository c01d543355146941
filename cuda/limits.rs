//! What a GPU can do at most: the limit that measured speeds stand beside.

use std::sync::Arc;

use crate::{
    Arena, Event, Gpu, Ptr, Result, Stream,
    ops::probe::{self, ELEMENT, SUMS},
};

/// Bytes that are read: more than any L2 cache holds.
const WORKING_SET: usize = 512 << 20;
/// Passes; the best one counts, for whatever disturbs makes it slower.
const PASSES: usize = 8;

/// GB/s that the GPU reads from its memory. Takes up to 512 MiB of it for the moment, half of what is free for models
/// if that is less.
///
/// # Errors
/// No memory for the buffer; a launch that failed.
pub fn read_bandwidth(gpu: &Arc<Gpu>) -> Result<f64> {
    let bytes = WORKING_SET.min(gpu.free_for_models()? as usize / 2);
    let blocks = 8 * gpu.properties().multiprocessors as u32;
    let (n, words) = ((bytes / ELEMENT).max(1), blocks as usize * SUMS);
    let stream = Stream::new(gpu)?;
    let (_arena, (from, sums)) = Arena::new(gpu, |c| (c.take::<[u32; 4]>("from", n), c.take::<u32>("sums", words)))?;
    // SAFETY: the arena has both buffers in these sizes and lives until all has run.
    unsafe {
        stream.zero(from, n)?;
        read_bandwidth_over(&stream, from, n as u32, sums)
    }
}

/// The same over `n` elements that are there already; `sums` takes [`SUMS`] words for each of 8 blocks per
/// multiprocessor.
///
/// # Errors
/// No memory for the buffer; a launch that failed.
///
/// # Safety
/// As for [`probe::read`].
pub unsafe fn read_bandwidth_over(stream: &Stream, from: Ptr<[u32; 4]>, n: u32, sums: Ptr<u32>) -> Result<f64> {
    let gpu = stream.gpu();
    let blocks = 8 * gpu.properties().multiprocessors as u32;
    let (before, after) = (Event::new(gpu)?, Event::new(gpu)?);
    let mut best = f32::INFINITY;
    for _ in 0..PASSES {
        before.record(stream)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { probe::read(stream, blocks, from, n, sums)? };
        after.record(stream)?;
        after.synchronize()?;
        best = best.min(after.since(&before)?);
    }
    Ok(f64::from(n) * ELEMENT as f64 / 1e6 / f64::from(best))
}
