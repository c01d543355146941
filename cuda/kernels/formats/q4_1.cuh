// Q4_1: 32 weights d·q + m in 20 bytes: d, m (f16), then nibbles as in Q4_0. Blocks are 4-byte aligned.
// Record of 16 × 128: nibbles, d, m.
#pragma once
#include "formats/planes.cuh"

struct Q4_1 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 20, COLUMNS = 128;
    static constexpr int RECORD = Nibbles::BYTES + Halves::BYTES + Halves::BYTES;
    static constexpr int SCALES = 1, MIN = 1, INTEGER = 0, POWER = 0;
    struct Held {
        Nibbles q;
        Halves d, m;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {Nibbles::load(p), Halves::load(p + Nibbles::BYTES, l), Halves::load(p + Nibbles::BYTES + Halves::BYTES, l)};
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) {
        return half ? h.q.high(i, j) : h.q.low(i, j);
    }
    DEVICE float scale(const Held& h, int i, int j) { return h.d.at(i, j); }
    DEVICE float minimum(const Held& h, int i, int j) { return h.m.at(i, j); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        unsigned q = load_weights4(block + 4 + 4 * t);
        return {q & 0x0f0f0f0f, q >> 4 & 0x0f0f0f0f};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Codes c = ::codes<Q4_1>(from, 0);
        Nibbles::store(p, c);
        pack_halves<Q4_1>(p + Nibbles::BYTES, from);
        pack_halves<Q4_1>(p + Nibbles::BYTES + Halves::BYTES, from, 2);
    }
};
