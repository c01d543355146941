//! Step 0 of sampling, for rows with a mask: the logits of tokens that may not come next become -inf. What samples the rows is
//! launched behind it and knows nothing of masks.

use super::{SampleState, mask_words};
use crate::{Grid, Params, Ptr, Result, Stream};

/// Threads of a block, and words of a mask that it goes through.
const THREADS: u32 = 256;
const WORDS: u32 = 32;

#[repr(C)]
#[derive(Clone, Copy)]
struct MaskParams {
    logits: Ptr<f32>,
    mask: Ptr<u32>,
    row: Ptr<i32>,
    vocab: i32,
    masks: i32,
}

// SAFETY: MaskParams in kernels/sample_mask.cu; the test below compares size and offsets.
unsafe impl Params for MaskParams {}

impl SampleState {
    /// Has the mask number `place` of the next [`SampleState::mask`] allow these tokens: bit `i % 32` of word `i / 32` is token
    /// `i`; tokens beyond the last word may not come, and bits beyond the vocabulary say nothing. Waits until the masks
    /// before have left for the device.
    pub fn stage_mask(&mut self, place: usize, allowed: &[u32]) {
        let words = mask_words(self.shape.vocab);
        let staged = &mut self.staged_masks.as_mut_slice()[place * words..(place + 1) * words];
        let (given, beyond) = staged.split_at_mut(words.min(allowed.len()));
        given.copy_from_slice(&allowed[..given.len()]);
        beyond.fill(0);
    }

    /// Copies the first `masks` staged masks and applies them, before [`SampleState::sample`]: of the row of `logits` that `row`
    /// names for each, tokens that may not come have -inf. NaN and +inf stay, for the sampler to find. Of a row
    /// whose mask allows nothing [`Status::NoToken`](super::Status::NoToken) comes.
    ///
    /// # Errors
    /// The driver refuses the copy or the launch, or an earlier launch has failed.
    ///
    /// # Panics
    /// More masks than sequences; while launches are recorded.
    ///
    /// # Safety
    /// The contract of [`ops`](crate::ops) for the buffers that [`SampleState::new`] was given, and for `logits`, `[rows][vocab]`,
    /// and `row`, `[masks]` different rows of them.
    pub unsafe fn mask(&self, stream: &Stream, logits: Ptr<f32>, row: Ptr<i32>, masks: usize) -> Result<()> {
        if masks == 0 {
            return Ok(());
        }
        let (vocab, words) = (self.shape.vocab, mask_words(self.shape.vocab));
        let params = MaskParams { logits, mask: self.buffers.masks, row, vocab: vocab as i32, masks: masks as i32 };
        let grid = Grid::plane((words as u32).div_ceil(WORDS), masks as u32, THREADS);
        // SAFETY: the buffer has a mask for each sequence, as the staged ones have, which `copy_in` compares; the kernel takes
        // these parameters (compared by the test below); the caller answers for the rest.
        unsafe {
            stream.copy_in(self.buffers.masks, &self.staged_masks, masks * words)?;
            stream.launch("sample_mask", grid, &params)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernel_has_the_same() {
        twin::fields!(MaskParams as "sample_mask::MaskParams" { logits, mask, row, vocab, masks });
        twin::constants([
            ("32 * sample_mask::MASK_WARPS", THREADS as usize),
            ("sample_mask::MASK_WARPS * sample_mask::MASK_WORDS", WORDS as usize),
        ]);
    }
}
