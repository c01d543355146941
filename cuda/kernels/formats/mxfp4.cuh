// MXFP4: 32 weights d·T[q] in 17 bytes: an exponent e with d = 2^(e − 128), then nibbles as in Q4_0; T is twice the
// sixteen values of E2M1: 0 1 2 3 4 6 8 12 and their negatives. Blocks are not aligned.
// Record of 16 × 128: nibbles; exponents {4 of row g, 4 of row g + 8}, 8 bytes per g.
#pragma once
#include "formats/planes.cuh"

struct MXFP4 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 17, COLUMNS = 128;
    static constexpr int RECORD = Nibbles::BYTES + 64;
    static constexpr int SCALES = 1, MIN = 0, INTEGER = 0, POWER = 0;
    struct Held {
        Nibbles q;
        uint2 e;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {Nibbles::load(p), load_weights8(p + Nibbles::BYTES + of_row(l, 8))};
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) {
        Quads q = look_up<0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc>(word(h.q.row[i], j));
        return half ? q.high : q.low;
    }
    DEVICE float scale(const Held& h, int i, int j) { return half_e8m0_to_f32((i ? h.e.y : h.e.x) >> 8 * j & 255); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        unsigned q = read_u32_at_1(row + block32 * BYTES + 1 + 4 * t);
        return {q & 0x0f0f0f0f, q >> 4 & 0x0f0f0f0f};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Codes c = ::codes<MXFP4>(from, 0);
        Nibbles::store(p, c);
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 4; j++) {
                unsigned e = from.has(i, j) ? load_weights1(from.row[i] + (from.first + j) * BYTES) : 0;
                p[Nibbles::BYTES + 8 * (lane() / 4) + 4 * i + j] = (unsigned char)e;
            }
        }
    }
};
