// IQ3_XXS: 256 weights in eight sub-blocks of 32, each d·(2n + 1)/4·(±4, ±12, ±20, ±28, ±36, ±44, ±52, ±62), in 98 bytes: f16 d, 64
// entries of four weights in a grid of 256, then for each sub-block a word with 4 × 7 signs below n. Blocks are 2-byte aligned.
// Record of formats/grid.cuh (102 bytes per row instead of 98).
#pragma once
#include "formats/grid.cuh"

struct IQ3_XXS : IQ3<0, 0x1c140c04, 0x3e342c24, 0xe4ecf4fc, 0xc2ccd4dc> {
    static constexpr int BYTES = 98;
    static constexpr int SMALL = 0, POWER = 2;
    DEVICE unsigned file_entry(const unsigned char* block, int j, int e) { return load_weights1(block + 2 + 8 * j + e); }
    DEVICE unsigned file_signs(const unsigned char* block, int j, int octet) {
        return even_signs(read_u32_at_2(block + 66 + 4 * j) >> 7 * octet);
    }
    DEVICE unsigned file_nibbles(const unsigned char* block, int) { return upper_nibbles(block + 66, 4); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_grid<IQ3_XXS>(p, from); }
};
