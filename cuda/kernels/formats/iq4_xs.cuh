// IQ4_XS: 256 weights in eight sub-blocks of 32, each d·(sc − 32)·T[q] with the table of IQ4_NL, in 136 bytes:
// f16 d, u16 with the upper two bits of the scales, 4 bytes with their low nibbles, 128 bytes of nibbles,
// each 16 of them a sub-block as in Q4_0. Blocks are 8-byte aligned.
// Record of 16 × 256: nibbles of both halves; sc − 32 as bytes {4 of row g, 4 of row g + 8} of both, 8 bytes per g (138 bytes per
// row instead of 136); d.
#pragma once
#include "formats/planes.cuh"

struct IQ4_XS : Quantized {
    static constexpr int BLOCK = 256, BYTES = 136, COLUMNS = 256;
    static constexpr int SUB = 2 * Nibbles::BYTES, D = SUB + 128;
    static constexpr int RECORD = D + RowHalves::BYTES;
    static constexpr int SCALES = 1, MIN = 0, INTEGER = 1, SMALL = 0, POWER = 0;
    struct Held {
        Nibbles q[2];
        uint2 s[2];
        RowHalves d;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {{Nibbles::load(p), Nibbles::load(p + Nibbles::BYTES)},
                {load_weights8(p + SUB + of_row(l, 8)), load_weights8(p + SUB + 64 + of_row(l, 8))},
                RowHalves::load(p + D, l)};
    }
    DEVICE unsigned quad(const Held& h, int c, int i, int j, int half) {
        Quads q = look_up_iq4(word(h.q[c].row[i], j));
        return half ? q.high : q.low;
    }
    DEVICE int scale(const Held& h, int c, int i, int j, int) { return signed_byte(i ? h.s[c].y : h.s[c].x, j); }
    DEVICE float d(const Held& h, int i) { return h.d.at(i); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        unsigned q = load_weights4(row + (block32 >> 3) * BYTES + 8 + 16 * (block32 & 7) + 4 * t);
        return {q & 0x0f0f0f0f, q >> 4 & 0x0f0f0f0f};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        for (int c = 0; c < 2; c++) Nibbles::store(p + c * Nibbles::BYTES, ::codes<IQ4_XS>(from, 4 * c));
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            uint2 header = {0, 0};
            if (from.has(i, 0)) header = load_weights8(from.row[i] + from.first / 8 * BYTES);
            for (int s = 0; s < 8; s++) {
                unsigned scale = ((header.y >> 4 * s & 15) | (header.x >> (16 + 2 * s) & 3) << 4) - 32;
                p[SUB + 64 * (s / 4) + 8 * (lane() / 4) + 4 * i + s % 4] = (unsigned char)scale;
            }
            RowHalves::store(p + D, i, header.x & 0xffff);
        }
    }
};
