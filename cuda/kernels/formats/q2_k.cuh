// Q2_K: 256 weights in 16 sub-blocks of 16, each d·sc·q − dmin·m, in 84 bytes: 16 bytes of scales (low nibble)
// and minimums (high), 64 bytes of 2-bit values, d, dmin (f16). In each half of the block (128 weights) byte l
// of 32 holds weights l, 32+l, 64+l, 96+l at shifts 0, 2, 4, 6. Blocks are 4-byte aligned.
// Record of 16 × 256: 2-bit values of both halves, scales and minimums of both as they are, d, dmin.
#pragma once
#include "formats/planes.cuh"

struct Q2_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 84, COLUMNS = 256;
    static constexpr int SUB = 2 * Pairs::BYTES, D = SUB + 2 * HalfBlockBytes::BYTES;
    static constexpr int RECORD = D + 2 * RowHalves::BYTES;
    static constexpr int SCALES = 2, MIN = 1, INTEGER = 1, SMALL = 1, POWER = 0;
    struct Held {
        Pairs q[2];
        HalfBlockBytes s[2];
        RowHalves both[2];
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {{Pairs::load(p), Pairs::load(p + Pairs::BYTES)},
                {HalfBlockBytes::load(p + SUB, l), HalfBlockBytes::load(p + SUB + HalfBlockBytes::BYTES, l)},
                {RowHalves::load(p + D, l), RowHalves::load(p + D + RowHalves::BYTES, l)}};
    }
    DEVICE unsigned quad(const Held& h, int c, int i, int j, int half) { return h.q[c].quad<0>(i, j, half); }
    DEVICE int scale(const Held& h, int c, int i, int j, int half) { return (int)(h.s[c].at(i, j, half) & 15); }
    DEVICE float minimum(const Held& h, int c, int i, int j, int half) { return (float)(h.s[c].at(i, j, half) >> 4); }
    DEVICE float d(const Held& h, int i) { return h.both[0].at(i); }
    DEVICE float dmin(const Held& h, int i) { return h.both[1].at(i); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        int i = block32 & 7, shift = 2 * (i & 3);
        const unsigned char* qs = row + (block32 >> 3) * BYTES + 16 + 32 * (i >> 2) + 4 * t;
        return {load_weights4(qs) >> shift & 0x03030303, load_weights4(qs + 16) >> shift & 0x03030303};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        for (int c = 0; c < 2; c++) Pairs::store<0>(p + c * Pairs::BYTES, ::codes<Q2_K>(from, 4 * c));
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            const unsigned char* block = from.row[i] + from.first / 8 * BYTES;
            for (int s = 0; s < 16; s++) {
                unsigned both = from.has(i, 0) ? load_weights1(block + s) : 0;
                HalfBlockBytes::store(p + SUB + s / 8 * HalfBlockBytes::BYTES, i, s % 8 / 2, s % 2, both);
            }
            RowHalves::store(p + D, i, from.has(i, 0) ? load_weights2(block + 80) : 0);
            RowHalves::store(p + D + RowHalves::BYTES, i, from.has(i, 0) ? load_weights2(block + 82) : 0);
        }
    }
};
