// NVFP4: 64 weights in four sub-blocks of 16, each d·T[q], in 36 bytes: 4 bytes of scales, then 8 bytes of nibbles per sub-block,
// weight i in the low half of byte i, weight i + 8 in the high one. T is that of MXFP4, d half of a float without a sign, 4 bits of
// exponent above 3 of mantissa (a byte of 127 is 0; else the uppermost bit says nothing). Files have a scale for a whole matrix
// beside it. Blocks are 4-byte aligned.
// Record of 16 × 128: nibbles; scales {8 of row g, 8 of row g + 8}, 16 bytes per g. An f16 whose bits are a scale's, moved up
// by 7, is 2^8 times smaller.
#pragma once
#include "formats/planes.cuh"

struct NVFP4 : Quantized {
    static constexpr int BLOCK = 64, BYTES = 36, COLUMNS = 128;
    static constexpr int RECORD = Nibbles::BYTES + HalfBlockBytes::BYTES;
    static constexpr int SCALES = 2, MIN = 0, INTEGER = 0, POWER = -7, SCALED = 1;
    struct Held {
        Nibbles q;
        HalfBlockBytes s;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {Nibbles::load(p), HalfBlockBytes::load(p + Nibbles::BYTES, l)};
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) {
        Quads q = look_up<0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc>(word(h.q.row[i], j));
        return half ? q.high : q.low;
    }
    DEVICE float scale(const Held& h, int i, int j, int half) { return low_half(h.s.at(i, j, half) << 7); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* qs = row + block32 / 2 * BYTES + 4 + 16 * (block32 % 2) + 4 * (t % 2);
        const int shift = t / 2 * 4;
        return {load_weights4(qs) >> shift & 0x0f0f0f0f, load_weights4(qs + 8) >> shift & 0x0f0f0f0f};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Nibbles::store(p, ::codes<NVFP4>(from, 0));
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            for (int s = 0; s < 8; s++) {
                const int block = from.first + s / 2;
                const unsigned char* scales = from.row[i] + block / 2 * BYTES + 2 * (block % 2);
                const unsigned scale = from.has(i, s / 2) ? load_weights1(scales + s % 2) : 0;
                HalfBlockBytes::store(p + Nibbles::BYTES, i, s / 2, s % 2, scale == 127 ? 0 : scale & 127);
            }
        }
    }
};
