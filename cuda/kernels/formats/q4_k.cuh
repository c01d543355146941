// Q4_K: 256 weights in eight sub-blocks of 32, each d·sc·q − dmin·m, in 144 bytes: d, dmin (f16), 12 bytes of
// scales and minimums, 128 bytes of nibbles. Byte 32c+l holds weights 64c+l (low) and 64c+32+l (high).
// Record of 16 × 256: nibbles of both halves; RowScales.
#pragma once
#include "formats/row_scales.cuh"

struct Q4_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 144, COLUMNS = 256;
    static constexpr int RECORD = 2 * Nibbles::BYTES + RowScales::BYTES;
    static constexpr int SCALES = 1, MIN = 1, INTEGER = 1, SMALL = 1, POWER = 0;
    struct Held {
        Nibbles q[2];
        RowScales s;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {{Nibbles::load(p), Nibbles::load(p + Nibbles::BYTES)}, RowScales::load(p + 2 * Nibbles::BYTES, l)};
    }
    DEVICE unsigned quad(const Held& h, int c, int i, int j, int half) { return half ? h.q[c].high(i, j) : h.q[c].low(i, j); }
    DEVICE int scale(const Held& h, int c, int i, int j, int) { return h.s.scale(c, i, j); }
    DEVICE float minimum(const Held& h, int c, int i, int j, int) { return h.s.minimum(c, i, j); }
    DEVICE float d(const Held& h, int i) { return h.s.d(i); }
    DEVICE float dmin(const Held& h, int i) { return h.s.dmin(i); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        int i = block32 & 7, shift = 4 * (i & 1);
        const unsigned char* qs = row + (block32 >> 3) * BYTES + 16 + 32 * (i >> 1) + 4 * t;
        return {load_weights4(qs) >> shift & 0x0f0f0f0f, load_weights4(qs + 16) >> shift & 0x0f0f0f0f};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        for (int c = 0; c < 2; c++) Nibbles::store(p + c * Nibbles::BYTES, ::codes<Q4_K>(from, 4 * c));
        RowScales::pack<Q4_K>(p + 2 * Nibbles::BYTES, from);
    }
};
