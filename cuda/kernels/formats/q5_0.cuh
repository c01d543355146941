// Q5_0: 32 weights d·(q − 16) in 22 bytes: f16 d, a word whose bit i is the fifth bit of weight i, then
// nibbles as in Q4_0. Blocks are 2-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct Q5_0 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 22, SCALES = 1, MIN = 1, ZERO = 16;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        float d = f16_to_f32(load_weights2(block)), m = ZERO * d;
        unsigned q = read_u32_at_2(block + 6 + 4 * t);
        unsigned fifth0 = load_weights2(block + 2) >> 4 * t, fifth1 = load_weights2(block + 4) >> 4 * t;
        return {(int)(q & 0x0f0f0f0f | fifth_bits(fifth0)), (int)(q >> 4 & 0x0f0f0f0f | fifth_bits(fifth1)), d, d, m, m};
    }
};
