// IQ2_XXS: 256 weights in eight sub-blocks of 32, each d·(2n + 1)/8·(±8, ±25, ±43), in 66 bytes: f16 d, then for each sub-block four
// bytes, entries of eight weights of a grid of 256, and a word with 4 × 7 signs below n. Blocks are 2-byte aligned.
// Record of formats/grid.cuh (70 bytes per row instead of 66).
#pragma once
#include "formats/grid.cuh"

struct IQ2_XXS : IQ2<0, 1> {
    static constexpr int BYTES = 66;
    DEVICE unsigned file_entry(const unsigned char* block, int j, int e) { return load_weights1(block + 2 + 8 * j + e); }
    DEVICE unsigned file_signs(const unsigned char* block, int j, int octet) {
        return even_signs(read_u32_at_2(block + 6 + 8 * j) >> 7 * octet);
    }
    DEVICE unsigned file_nibbles(const unsigned char* block, int) { return upper_nibbles(block + 6, 8); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_grid<IQ2_XXS>(p, from); }
};
