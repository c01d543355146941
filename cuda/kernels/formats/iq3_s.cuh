// IQ3_S: 256 weights in eight sub-blocks of 32, each d·(2n + 1)·(±1, ±3, … ±15), in 110 bytes: f16 d, 64 bytes with the low bits of
// entries of four weights in a grid of 512, 8 bytes with their ninth bits, 32 bytes of signs, then a nibble n per
// sub-block. Blocks are 2-byte aligned.
// Record of formats/grid.cuh.
#pragma once
#include "formats/grid.cuh"

struct IQ3_S : IQ3<1, 0x07050301, 0x0f0d0b09, 0xf9fbfdff, 0xf1f3f5f7> {
    static constexpr int BYTES = 110;
    static constexpr int SMALL = 1, POWER = 0;
    DEVICE unsigned file_entry(const unsigned char* block, int j, int e) {
        return load_weights1(block + 2 + 8 * j + e) | (load_weights1(block + 66 + j) >> e & 1) << 8;
    }
    DEVICE unsigned file_signs(const unsigned char* block, int j, int octet) { return load_weights1(block + 74 + 4 * j + octet); }
    DEVICE unsigned file_nibbles(const unsigned char* block, int) { return read_u32_at_2(block + 106); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_grid<IQ3_S>(p, from); }
};
