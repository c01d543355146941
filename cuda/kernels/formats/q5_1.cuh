// Q5_1: 32 weights d·q + m in 24 bytes: d, m (f16), fifth bits as in Q5_0, nibbles as in Q4_0. Blocks are
// 8-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct Q5_1 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 24, SCALES = 1, MIN = 1, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        uint2 header = load_weights8(block);
        unsigned q = load_weights4(block + 8 + 4 * t), fifth = header.y >> 4 * t;
        float d = low_half(header.x), m = -high_half(header.x);
        return {(int)(q & 0x0f0f0f0f | fifth_bits(fifth)), (int)(q >> 4 & 0x0f0f0f0f | fifth_bits(fifth >> 16)), d, d, m, m};
    }
};
