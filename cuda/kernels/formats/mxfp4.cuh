// MXFP4: 32 weights d·T[q] in 17 bytes: an exponent e with d = 2^(e − 128), then nibbles as in Q4_0; T is twice the
// sixteen values of E2M1: 0 1 2 3 4 6 8 12 and their negatives. Blocks are not aligned.
#pragma once
#include "formats/bits.cuh"

struct MXFP4 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 17, SCALES = 1, MIN = 0, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        float d = half_e8m0_to_f32(load_weights1(block));
        Quads q = look_up<0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc>(read_u32_at_1(block + 1 + 4 * t));
        return {(int)q.low, (int)q.high, d, d, 0, 0};
    }
};
