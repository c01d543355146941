// Q4_1: 32 weights d·q + m in 20 bytes: d, m (f16), then nibbles as in Q4_0. Blocks are 4-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct Q4_1 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 20, SCALES = 1, MIN = 1, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        unsigned dm = load_weights4(block), q = load_weights4(block + 4 + 4 * t);
        float d = low_half(dm), m = -high_half(dm);
        return {(int)(q & 0x0f0f0f0f), (int)(q >> 4 & 0x0f0f0f0f), d, d, m, m};
    }
};
