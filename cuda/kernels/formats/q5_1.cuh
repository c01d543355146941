// Q5_1: 32 weights d·q + m in 24 bytes: d, m (f16), fifth bits as in Q5_0, nibbles as in Q4_0. Blocks are
// 8-byte aligned.
// Record of 16 × 128: nibbles, fifth bits, d, m.
#pragma once
#include "formats/planes.cuh"

struct Q5_1 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 24, COLUMNS = 128;
    static constexpr int RECORD = Nibbles::BYTES + Bits::BYTES + Halves::BYTES + Halves::BYTES;
    static constexpr int SCALES = 1, MIN = 1, INTEGER = 0, POWER = 0;
    struct Held {
        Nibbles q;
        Bits fifth;
        Halves d, m;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {Nibbles::load(p), Bits::load(p + Nibbles::BYTES, l), Halves::load(p + Nibbles::BYTES + Bits::BYTES, l), Halves::load(p + Nibbles::BYTES + Bits::BYTES + Halves::BYTES, l)};
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) {
        return (half ? h.q.high(i, j) : h.q.low(i, j)) | h.fifth.quad<4>(i, j, half);
    }
    DEVICE float scale(const Held& h, int i, int j) { return h.d.at(i, j); }
    DEVICE float minimum(const Held& h, int i, int j) { return h.m.at(i, j); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        unsigned fifth = load_weights4(block + 4) >> 4 * t;
        unsigned q = load_weights4(block + 8 + 4 * t);
        return {(q & 0x0f0f0f0f) | fifth_bits(fifth), (q >> 4 & 0x0f0f0f0f) | fifth_bits(fifth >> 16)};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Codes c = ::codes<Q5_1>(from, 0);
        Nibbles::store(p, c);
        Bits::store<4>(p + Nibbles::BYTES, c);
        pack_halves<Q5_1>(p + Nibbles::BYTES + Bits::BYTES, from);
        pack_halves<Q5_1>(p + Nibbles::BYTES + Bits::BYTES + Halves::BYTES, from, 2);
    }
};
