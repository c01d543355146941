// Q4_0: 32 weights d·(q − 8) in 18 bytes: f16 d, then 16 bytes of nibbles: byte i holds weights i (low) and
// i+16 (high). Blocks are 2-byte aligned.
// Record of 16 × 128: nibbles with their top bit inverted, so that they are the upper half of a signed byte 16·(q − 8); then d.
#pragma once
#include "formats/planes.cuh"

struct Q4_0 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 18, COLUMNS = 128;
    static constexpr int RECORD = Nibbles::BYTES + Halves::BYTES;
    static constexpr int SCALES = 1, MIN = 0, INTEGER = 0, POWER = 4;
    struct Held {
        Nibbles q;
        Halves d;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {Nibbles::load(p), Halves::load(p + Nibbles::BYTES, l)};
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) {
        return (half ? word(h.q.row[i], j) : word(h.q.row[i], j) << 4) & 0xf0f0f0f0;
    }
    DEVICE float scale(const Held& h, int i, int j) { return h.d.at(i, j); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        unsigned q = read_u32_at_2(block + 2 + 4 * t);
        return {q & 0x0f0f0f0f, q >> 4 & 0x0f0f0f0f};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Codes c = ::codes<Q4_0>(from, 0);
        Nibbles::store<0x88>(p, c);
        pack_halves<Q4_0>(p + Nibbles::BYTES, from);
    }
};
