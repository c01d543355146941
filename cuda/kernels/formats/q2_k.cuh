// Q2_K: 256 weights in 16 sub-blocks of 16, each d·sc·q − dmin·m, in 84 bytes: 16 bytes of scales (low nibble)
// and minimums (high), 64 bytes of 2-bit values, d, dmin (f16). In each half of the block (128 weights) byte l
// of 32 holds weights l, 32+l, 64+l, 96+l at shifts 0, 2, 4, 6. Blocks are 4-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct Q2_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 84, SCALES = 2, MIN = 1, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7, shift = 2 * (i & 3);
        unsigned s = load_weights2(block + 2 * i), dm = load_weights4(block + 80);
        const unsigned char* qs = block + 16 + 32 * (i >> 2) + 4 * t;
        int q0 = load_weights4(qs) >> shift & 0x03030303, q1 = load_weights4(qs + 16) >> shift & 0x03030303;
        float d = low_half(dm), m = high_half(dm);
        return {q0, q1, d * (float)(s & 15), d * (float)(s >> 8 & 15), m * (float)(s >> 4 & 15), m * (float)(s >> 12)};
    }
};
