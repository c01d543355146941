// Q5_K: Q4_K with a fifth bit per weight, in 176 bytes: d, dmin (f16), 12 bytes of scales and minimums, 32
// bytes of fifth bits (bit i of byte l is that of weight 32i+l), 128 bytes of nibbles.
// Record of 16 × 256: nibbles of both halves, fifth bits of both; RowScales.
#pragma once
#include "formats/row_scales.cuh"

struct Q5_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 176, COLUMNS = 256, HALF = Nibbles::BYTES + Bits::BYTES;
    static constexpr int RECORD = 2 * HALF + RowScales::BYTES;
    static constexpr int SCALES = 1, MIN = 1, INTEGER = 1, SMALL = 0, POWER = 0;
    struct Held {
        Nibbles q[2];
        Bits fifth[2];
        RowScales s;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {{Nibbles::load(p), Nibbles::load(p + HALF)},
                {Bits::load(p + Nibbles::BYTES, l), Bits::load(p + HALF + Nibbles::BYTES, l)},
                RowScales::load(p + 2 * HALF, l)};
    }
    DEVICE unsigned quad(const Held& h, int c, int i, int j, int half) {
        return (half ? h.q[c].high(i, j) : h.q[c].low(i, j)) | h.fifth[c].quad<4>(i, j, half);
    }
    DEVICE int scale(const Held& h, int c, int i, int j, int) { return h.s.scale(c, i, j); }
    DEVICE float minimum(const Held& h, int c, int i, int j, int) { return h.s.minimum(c, i, j); }
    DEVICE float d(const Held& h, int i) { return h.s.d(i); }
    DEVICE float dmin(const Held& h, int i) { return h.s.dmin(i); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7, shift = 4 * (i & 1);
        const unsigned char *fifth = block + 16 + 4 * t, *qs = block + 48 + 32 * (i >> 1) + 4 * t;
        return {(load_weights4(qs) >> shift & 0x0f0f0f0f) | (rotate_left(load_weights4(fifth), 4 - i) & 0x10101010),
                (load_weights4(qs + 16) >> shift & 0x0f0f0f0f) | (rotate_left(load_weights4(fifth + 16), 4 - i) & 0x10101010)};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        for (int c = 0; c < 2; c++) {
            Codes q = ::codes<Q5_K>(from, 4 * c);
            Nibbles::store(p + c * HALF, q);
            Bits::store<4>(p + c * HALF + Nibbles::BYTES, q);
        }
        RowScales::pack<Q5_K>(p + 2 * HALF, from);
    }
};
