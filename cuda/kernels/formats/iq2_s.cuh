// IQ2_S: 256 weights in 16 sub-blocks of 16, each d·(2n + 1)/8·(±8, ±25, ±43), in 82 bytes: f16 d, 32 bytes with the low bits of entries
// of eight weights in a grid of 1024, 32 bytes of signs, 8 bytes with the upper two bits of four entries each, then a nibble n
// per sub-block. Blocks are 2-byte aligned.
// Record of formats/grid.cuh.
#pragma once
#include "formats/grid.cuh"

struct IQ2_S : IQ2<2, 2> {
    static constexpr int BYTES = 82;
    DEVICE unsigned file_entry(const unsigned char* block, int j, int e) {
        return load_weights1(block + 2 + 4 * j + e) | (load_weights1(block + 66 + j) >> 2 * e & 3) << 8;
    }
    DEVICE unsigned file_signs(const unsigned char* block, int j, int octet) { return load_weights1(block + 34 + 4 * j + octet); }
    DEVICE unsigned file_nibbles(const unsigned char* block, int c) { return read_u32_at_2(block + 74 + 4 * c); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_grid<IQ2_S>(p, from); }
};
