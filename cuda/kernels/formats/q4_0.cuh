// Q4_0: 32 weights d·(q − 8) in 18 bytes: f16 d, then 16 bytes of nibbles: byte i holds weights i (low) and
// i+16 (high). Blocks are 2-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct Q4_0 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 18, SCALES = 1, MIN = 1, ZERO = 8;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        float d = f16_to_f32(load_weights2(block)), m = ZERO * d;
        unsigned q = read_u32_at_2(block + 2 + 4 * t);
        return {(int)(q & 0x0f0f0f0f), (int)(q >> 4 & 0x0f0f0f0f), d, d, m, m};
    }
};
