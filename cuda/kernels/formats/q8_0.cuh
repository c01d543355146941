// Q8_0: 32 weights d·q in 34 bytes: f16 d, then 32 signed bytes. Blocks are 2-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct Q8_0 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 34, SCALES = 1, MIN = 0, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        float d = f16_to_f32(load_weights2(block));
        return {(int)read_u32_at_2(block + 2 + 4 * t), (int)read_u32_at_2(block + 18 + 4 * t), d, d, 0, 0};
    }
};
