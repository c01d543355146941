// IQ2_XS: 256 weights in 16 sub-blocks of 16, each d·(2n + 1)/8·(±8, ±25, ±43), in 74 bytes: f16 d, 32 words of 16 bits, the
// entry of eight weights in a grid of 512 below seven signs, then a nibble n per sub-block. Blocks are 2-byte aligned.
// Record of formats/grid.cuh (78 bytes per row instead of 74).
#pragma once
#include "formats/grid.cuh"

struct IQ2_XS : IQ2<1, 2> {
    static constexpr int BYTES = 74;
    DEVICE unsigned file_entry(const unsigned char* block, int j, int e) { return load_weights2(block + 2 + 2 * (4 * j + e)) & 511; }
    DEVICE unsigned file_signs(const unsigned char* block, int j, int octet) {
        return even_signs(load_weights2(block + 2 + 2 * (4 * j + octet)) >> 9);
    }
    DEVICE unsigned file_nibbles(const unsigned char* block, int c) { return read_u32_at_2(block + 66 + 4 * c); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_grid<IQ2_XS>(p, from); }
};
