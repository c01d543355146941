// Q3_K: 256 weights in 16 sub-blocks of 16, each d·(sc − 32)·(q − 4), in 110 bytes: 32 bytes of third bits (bit
// i of byte l is that of weight 32i+l), 64 bytes of 2-bit values as in Q2_K, 12 bytes of scales, f16 d. The
// scale of sub-block s has its low four bits in byte s%8 (nibble s/8), its upper two in byte 8+s%4 at shift
// 2(s/4). Blocks are 2-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct Q3_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 110, SCALES = 2, MIN = 1, ZERO = 4;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7, shift = 2 * (i & 3);
        const unsigned char *qs = block + 32 + 32 * (i >> 2) + 4 * t, *third = block + 4 * t;
        unsigned q0 = (read_u32_at_2(qs) >> shift & 0x03030303) | (rotate_left(read_u32_at_2(third), 2 - i) & 0x04040404);
        unsigned q1 = (read_u32_at_2(qs + 16) >> shift & 0x03030303) | (rotate_left(read_u32_at_2(third + 16), 2 - i) & 0x04040404);
        // Two scales at once, one per byte.
        unsigned low = load_weights2(block + 96 + 2 * (i & 3)) >> 4 * (i >> 2) & 0x0f0f;
        unsigned high = load_weights2(block + 104 + 2 * (i & 1)) >> 2 * (i >> 1) & 0x0303;
        unsigned s = low | high << 4;
        float d = f16_to_f32(load_weights2(block + 108));
        float d0 = d * ((float)(s & 255) - 32.0f), d1 = d * ((float)(s >> 8) - 32.0f);
        return {(int)q0, (int)q1, d0, d1, ZERO * d0, ZERO * d1};
    }
};
