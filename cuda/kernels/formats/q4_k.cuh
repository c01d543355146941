// Q4_K: 256 weights in eight sub-blocks of 32, each d·sc·q − dmin·m, in 144 bytes: d, dmin (f16), 12 bytes of
// scales and minimums, 128 bytes of nibbles. Byte 32c+l holds weights 64c+l (low) and 64c+32+l (high).
#pragma once
#include "formats/bits.cuh"

struct Q4_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 144, SCALES = 1, MIN = 1, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7, shift = 4 * (i & 1);
        ScaleMin s = scale_min(load_weights16(block), i);
        const unsigned char* qs = block + 16 + 32 * (i >> 1) + 4 * t;
        int q0 = load_weights4(qs) >> shift & 0x0f0f0f0f, q1 = load_weights4(qs + 16) >> shift & 0x0f0f0f0f;
        return {q0, q1, s.d, s.d, s.m, s.m};
    }
};
