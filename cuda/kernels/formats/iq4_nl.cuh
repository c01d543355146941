// IQ4_NL: 32 weights d·T[q] in 18 bytes, T a table of 16 values (bits.cuh): f16 d, then nibbles as in Q4_0.
// Blocks are 2-byte aligned.
// Record of 16 × 128: nibbles, d.
#pragma once
#include "formats/planes.cuh"

struct IQ4_NL : Quantized {
    static constexpr int BLOCK = 32, BYTES = 18, COLUMNS = 128;
    static constexpr int RECORD = Nibbles::BYTES + Halves::BYTES;
    static constexpr int SCALES = 1, MIN = 0, INTEGER = 0, POWER = 0;
    struct Held {
        Nibbles q;
        Halves d;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {Nibbles::load(p), Halves::load(p + Nibbles::BYTES, l)};
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) {
        Quads q = look_up_iq4(word(h.q.row[i], j));
        return half ? q.high : q.low;
    }
    DEVICE float scale(const Held& h, int i, int j) { return h.d.at(i, j); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        unsigned q = read_u32_at_2(block + 2 + 4 * t);
        return {q & 0x0f0f0f0f, q >> 4 & 0x0f0f0f0f};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Codes c = ::codes<IQ4_NL>(from, 0);
        Nibbles::store(p, c);
        pack_halves<IQ4_NL>(p + Nibbles::BYTES, from);
    }
};
