// TQ2_0: 256 ternary weights d·(q − 1) in 66 bytes: 2-bit values as in Q2_K, f16 d. Blocks are 2-byte aligned.
// Record of formats/two_bits.cuh.
#pragma once
#include "formats/two_bits.cuh"

struct TQ2_0 : TwoBits {
    static constexpr int BLOCK = 256, BYTES = 66;
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const int i = block32 & 7, shift = 2 * (i & 3);
        const unsigned char* qs = row + (block32 >> 3) * BYTES + 32 * (i >> 2) + 4 * t;
        return {read_u32_at_2(qs) >> shift & 0x03030303, read_u32_at_2(qs + 16) >> shift & 0x03030303};
    }
    DEVICE unsigned half(const unsigned char* row, int block32) { return load_weights2(row + (block32 >> 3) * BYTES + 64); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_as<TQ2_0>(p, from); }
};
