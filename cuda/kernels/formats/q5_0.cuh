// Q5_0: 32 weights d·(q − 16) in 22 bytes: f16 d, a word whose bit i is the fifth bit of weight i, then
// nibbles as in Q4_0. Blocks are 2-byte aligned.
// Record of 16 × 128: nibbles, fifth bits inverted (the sign of a byte 8·(q − 16)), d.
#pragma once
#include "formats/planes.cuh"

struct Q5_0 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 22, COLUMNS = 128;
    static constexpr int RECORD = Nibbles::BYTES + Bits::BYTES + Halves::BYTES;
    static constexpr int SCALES = 1, MIN = 0, INTEGER = 0, POWER = 3;
    struct Held {
        Nibbles q;
        Bits fifth;
        Halves d;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {Nibbles::load(p), Bits::load(p + Nibbles::BYTES, l), Halves::load(p + Nibbles::BYTES + Bits::BYTES, l)};
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) {
        unsigned low = half ? word(h.q.row[i], j) >> 1 : word(h.q.row[i], j) << 3;
        return (low & 0x78787878) | h.fifth.quad<7>(i, j, half);
    }
    DEVICE float scale(const Held& h, int i, int j) { return h.d.at(i, j); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        unsigned q = read_u32_at_2(block + 6 + 4 * t);
        return {(q & 0x0f0f0f0f) | fifth_bits(load_weights2(block + 2) >> 4 * t), (q >> 4 & 0x0f0f0f0f) | fifth_bits(load_weights2(block + 4) >> 4 * t)};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Codes c = ::codes<Q5_0>(from, 0);
        Nibbles::store(p, c);
        Bits::store<4, 1>(p + Nibbles::BYTES, c);
        pack_halves<Q5_0>(p + Nibbles::BYTES + Bits::BYTES, from);
    }
};
