// Q6_K: 256 weights in 16 sub-blocks of 16, each d·sc·(q − 32), in 210 bytes: 128 bytes of low nibbles, 64 bytes
// of upper two bits, 16 signed scales, f16 d. In each half of the block (128 weights) byte l of 64 holds
// weights l (low) and 64+l (high), and byte l of the 32 with upper bits weights l, 32+l, 64+l, 96+l at shifts
// 0, 2, 4, 6. Blocks are 2-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct Q6_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 210, SCALES = 2, MIN = 1, ZERO = 32;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7, half = i >> 2, j = i & 3, shift = 4 * (j >> 1);
        const unsigned char *low = block + 64 * half + 32 * (j & 1) + 4 * t, *high = block + 128 + 32 * half + 4 * t;
        unsigned q0 = (read_u32_at_2(low) >> shift & 0x0f0f0f0f) | (rotate_left(read_u32_at_2(high), 4 - 2 * j) & 0x30303030);
        unsigned q1 = (read_u32_at_2(low + 16) >> shift & 0x0f0f0f0f) | (rotate_left(read_u32_at_2(high + 16), 4 - 2 * j) & 0x30303030);
        unsigned s = load_weights2(block + 192 + 2 * i);
        float d = f16_to_f32(load_weights2(block + 208));
        float d0 = d * (float)(signed char)s, d1 = d * (float)(signed char)(s >> 8);
        return {(int)q0, (int)q1, d0, d1, ZERO * d0, ZERO * d1};
    }
};
