//! Random numbers by counting: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Four random words for a 64-bit key and a 128-bit counter (word 0 the lowest).
pub fn philox4x32(key: u64, counter: [u32; 4]) -> [u32; 4] {
    let mut keys = [key as u32, (key >> 32) as u32];
    let mut words = counter;
    for _ in 0..ROUNDS {
        let even = u64::from(MULTIPLIERS[0]) * u64::from(words[0]);
        let odd = u64::from(MULTIPLIERS[1]) * u64::from(words[2]);
        words = [
            (odd >> 32) as u32 ^ words[1] ^ keys[0],
            odd as u32,
            (even >> 32) as u32 ^ words[3] ^ keys[1],
            even as u32,
        ];
        keys = [keys[0].wrapping_add(KEY_STEPS[0]), keys[1].wrapping_add(KEY_STEPS[1])];
    }
    words
}
