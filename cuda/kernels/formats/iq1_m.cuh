// IQ1_M: 256 weights in 16 sub-blocks of 16 in 56 bytes: 32 bytes with the low bits of entries, 16 bytes with a nibble per entry: its
// upper three bits, and whether it is moved down; then four words: n of four sub-blocks, three bits each, and in the uppermost
// four bits a quarter of the f16 d. Blocks are 8-byte aligned.
// Record of formats/iq1.cuh.
#pragma once
#include "formats/iq1.cuh"

struct IQ1_M : IQ1 {
    static constexpr int BYTES = 56;
    DEVICE unsigned word_of(const unsigned char* block, int i) { return load_weights2(block + 48 + 2 * i); }
    DEVICE unsigned entry(const unsigned char* block, int j, int e) {
        const unsigned nibble = load_weights1(block + 32 + 2 * j + e / 2) >> 4 * (e % 2) & 15;
        return load_weights1(block + 4 * j + e) | nibble << 8;
    }
    DEVICE unsigned n(const unsigned char* block, int j, int half) { return word_of(block, j / 2) >> 3 * (2 * j % 4 + half) & 7; }
    DEVICE unsigned half(const unsigned char* block) {
        unsigned d = 0;
        for (int i = 0; i < 4; i++) d |= word_of(block, i) >> 12 << 4 * i;
        return d;
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_as<IQ1_M>(p, from); }
};
