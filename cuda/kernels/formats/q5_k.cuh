// Q5_K: Q4_K with a fifth bit per weight, in 176 bytes: d, dmin (f16), 12 bytes of scales and minimums, 32
// bytes of fifth bits (bit i of byte l is that of weight 32i+l), 128 bytes of nibbles.
#pragma once
#include "formats/bits.cuh"

struct Q5_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 176, SCALES = 1, MIN = 1, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7, shift = 4 * (i & 1);
        ScaleMin s = scale_min(load_weights16(block), i);
        const unsigned char *fifth = block + 16 + 4 * t, *qs = block + 48 + 32 * (i >> 1) + 4 * t;
        unsigned q0 = (load_weights4(qs) >> shift & 0x0f0f0f0f) | (rotate_left(load_weights4(fifth), 4 - i) & 0x10101010);
        unsigned q1 = (load_weights4(qs + 16) >> shift & 0x0f0f0f0f) | (rotate_left(load_weights4(fifth + 16), 4 - i) & 0x10101010);
        return {(int)q0, (int)q1, s.d, s.d, s.m, s.m};
    }
};
