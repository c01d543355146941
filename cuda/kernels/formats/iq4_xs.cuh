// IQ4_XS: 256 weights in eight sub-blocks of 32, each d·(sc − 32)·T[q] with the table of IQ4_NL, in 136 bytes:
// f16 d, u16 with the upper two bits of the scales, 4 bytes with their low nibbles, 128 bytes of nibbles,
// each 16 of them a sub-block as in Q4_0. Blocks are 8-byte aligned.
#pragma once
#include "formats/bits.cuh"

struct IQ4_XS : Quantized {
    static constexpr int BLOCK = 256, BYTES = 136, SCALES = 1, MIN = 0, ZERO = 0;
    DEVICE Octet octet(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7;
        uint2 header = load_weights8(block);
        unsigned s = (header.y >> 4 * i & 15) | (header.x >> (16 + 2 * i) & 3) << 4;
        float d = low_half(header.x) * ((float)s - 32.0f);
        Quads q = look_up_iq4(load_weights4(block + 8 + 16 * i + 4 * t));
        return {(int)q.low, (int)q.high, d, d, 0, 0};
    }
};
