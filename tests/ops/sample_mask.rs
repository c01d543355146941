//! Masks, by themselves: which logits become -inf. What is drawn from the others is compared where the CPU sampler is
//! (tests/device_sampling/masks.rs).

use qrun_cuda::{
    Arena,
    ops::sample::{SampleShape, SampleState},
};

use crate::harness::{Device, Random, everywhere};

/// The logits, `[rows][vocab]`, after masks of some of the rows.
fn masked(d: &Device, logits: &[f32], vocab: usize, (rows, masks): (&[i32], &[Vec<u32>])) -> Vec<f32> {
    let shape = SampleShape { sequences: masks.len(), vocab, history: 0, biases: 0 };
    let (arena, buffers) = Arena::new(&d.gpu, |layout| shape.take(layout)).expect("device memory");
    if let Some(machine) = d.machine() {
        let parts = arena.parts().iter().filter(|part| part.bytes > 0);
        parts.for_each(|part| machine.fence(arena.address() + part.offset, part.bytes, &part.name));
    }
    // SAFETY: the arena has the buffers of this shape and lives as long as the state.
    let mut state = unsafe { SampleState::new(&d.stream, shape, buffers) }.expect("a state");
    let (logits, rows) = (d.buffer(logits), d.buffer(rows));
    // Masks that allow everything, and then these: of those before them nothing is left.
    let all = vec![vec![!0; vocab.div_ceil(32)]; masks.len()];
    for masks in [&all[..], masks] {
        masks.iter().enumerate().for_each(|(place, mask)| state.stage_mask(place, mask));
        // SAFETY: a row of the logits for each mask; all live to the end of this function, which waits for the launch.
        unsafe { state.mask(&d.stream, logits.ptr, rows.ptr, masks.len()) }.unwrap_or_else(|e| panic!("{e}"));
    }
    d.read(&logits)
}

/// Words of a mask that allows these tokens.
fn words(vocab: usize, allowed: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut words = vec![0; vocab.div_ceil(32)];
    (0..vocab).filter(|&i| allowed(i)).for_each(|i| words[i / 32] |= 1 << (i % 32));
    words
}

#[test]
fn what_may_not_come_is_excluded_and_nothing_else_changes() {
    const ROWS: usize = 9;
    for vocab in [1, 31, 32, 33, 127, 128, 129, 1000, 1023, 1024, 1025, 4099, 9001] {
        let mut random = Random::new(vocab as u64);
        let mut logits = random.normals(ROWS * vocab);
        // What the sampler has to find, allowed or not; and tokens that are excluded already.
        for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MAX, f32::MIN] {
            (0..ROWS).for_each(|row| logits[row * vocab + random.below(vocab)] = special);
        }
        let one = random.below(vocab);
        let bits: Vec<u64> = (0..vocab).map(|_| random.next()).collect();
        let (half, few) = (words(vocab, |i| bits[i] & 1 == 1), words(vocab, |i| bits[i].is_multiple_of(50)));
        let short = words(vocab, |i| i < vocab / 2 / 32 * 32)[..vocab / 2 / 32].to_vec();
        // Bits beyond the vocabulary say nothing, nor do words.
        let beyond = [words(vocab, |i| bits[i] & 2 == 2), vec![!0; 3]].concat();
        let all = vec![!0; vocab.div_ceil(32)];
        let masks = [words(vocab, |i| i == one), half, all, few, short, vec![], beyond, words(vocab, |i| i != one)];
        // Row 4 has no mask.
        let rows = [8, 3, 0, 5, 1, 7, 2, 6];
        let mut expected = logits.clone();
        for (&row, mask) in rows.iter().zip(&masks) {
            let row = &mut expected[row as usize * vocab..(row as usize + 1) * vocab];
            for (i, logit) in row.iter_mut().enumerate() {
                let allowed = mask.get(i / 32).is_some_and(|word| word >> (i % 32) & 1 == 1);
                if !allowed && *logit < f32::INFINITY {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let run = |d: &Device| masked(d, &logits, vocab, (&rows, &masks));
        everywhere(run, |found| assert_eq!(bits(found), bits(&expected), "{vocab} tokens"));
    }
}
