// IQ1_S: 256 weights in eight sub-blocks of 32 in 50 bytes: f16 d, 32 bytes with the low bits of entries, then a word per
// sub-block: the upper three bits of its four entries, n in three bits, and whether they are moved down. Blocks are 2-byte aligned.
// Record of formats/iq1.cuh.
#pragma once
#include "formats/iq1.cuh"

struct IQ1_S : IQ1 {
    static constexpr int BYTES = 50;
    DEVICE unsigned word_of(const unsigned char* block, int j) { return load_weights2(block + 34 + 2 * j); }
    DEVICE unsigned entry(const unsigned char* block, int j, int e) {
        const unsigned w = word_of(block, j);
        return load_weights1(block + 2 + 4 * j + e) | (w >> 3 * e & 7) << 8 | w >> 15 << 11;
    }
    DEVICE unsigned n(const unsigned char* block, int j, int) { return word_of(block, j) >> 12 & 7; }
    DEVICE unsigned half(const unsigned char* block) { return load_weights2(block); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_as<IQ1_S>(p, from); }
};
