// IQ4_NL: 32 weights d·T[q] in 18 bytes, T a table of 16 values (bits.cuh): f16 d, then nibbles as in Q4_0.
// Blocks are 2-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct IQ4_NL : Quantized {
    static constexpr int BLOCK = 32, BYTES = 18, SCALES = 1, MIN = 0, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        float d = f16_to_f32(load_weights2(block));
        Quads q = look_up_iq4(read_u32_at_2(block + 2 + 4 * t));
        return {(int)q.low, (int)q.high, d, d, 0, 0};
    }
};
