// Q3_K: 256 weights in 16 sub-blocks of 16, each d·(sc − 32)·(q − 4), in 110 bytes: 32 bytes of third bits (bit
// i of byte l is that of weight 32i+l), 64 bytes of 2-bit values as in Q2_K, 12 bytes of scales, f16 d. The
// scale of sub-block s has its low four bits in byte s%8 (nibble s/8), its upper two in byte 8+s%4 at shift
// 2(s/4). Blocks are 2-byte aligned.
// Record of 16 × 256: 2-bit values of both halves, third bits inverted (the sign of a byte 32·(q − 4)) of both, sc − 32 as bytes
// of both (114 bytes per row instead of 110), d.
#pragma once
#include "formats/planes.cuh"

struct Q3_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 110, COLUMNS = 256;
    static constexpr int THIRD = 2 * Pairs::BYTES, SUB = THIRD + 2 * Bits::BYTES, D = SUB + 2 * HalfBlockBytes::BYTES;
    static constexpr int RECORD = D + RowHalves::BYTES;
    static constexpr int SCALES = 2, MIN = 0, INTEGER = 1, SMALL = 0, POWER = 5;
    struct Held {
        Pairs q[2];
        Bits third[2];
        HalfBlockBytes s[2];
        RowHalves d;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {{Pairs::load(p), Pairs::load(p + Pairs::BYTES)},
                {Bits::load(p + THIRD, l), Bits::load(p + THIRD + Bits::BYTES, l)},
                {HalfBlockBytes::load(p + SUB, l), HalfBlockBytes::load(p + SUB + HalfBlockBytes::BYTES, l)},
                RowHalves::load(p + D, l)};
    }
    DEVICE unsigned quad(const Held& h, int c, int i, int j, int half) {
        return h.q[c].quad<5>(i, j, half) | h.third[c].quad<7>(i, j, half);
    }
    DEVICE int scale(const Held& h, int c, int i, int j, int half) { return h.s[c].signed_at(i, j, half); }
    DEVICE float d(const Held& h, int i) { return h.d.at(i); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7, shift = 2 * (i & 3);
        const unsigned char *qs = block + 32 + 32 * (i >> 2) + 4 * t, *third = block + 4 * t;
        return {(read_u32_at_2(qs) >> shift & 0x03030303) | (rotate_left(read_u32_at_2(third), 2 - i) & 0x04040404),
                (read_u32_at_2(qs + 16) >> shift & 0x03030303) | (rotate_left(read_u32_at_2(third + 16), 2 - i) & 0x04040404)};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        for (int c = 0; c < 2; c++) {
            Codes q = ::codes<Q3_K>(from, 4 * c);
            Pairs::store<0>(p + c * Pairs::BYTES, q);
            Bits::store<2, 1>(p + THIRD + c * Bits::BYTES, q);
        }
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            const unsigned char* block = from.row[i] + from.first / 8 * BYTES;
            for (int s = 0; s < 16; s++) {
                unsigned scale = 0;
                if (from.has(i, 0)) {
                    unsigned low = load_weights1(block + 96 + s % 8) >> 4 * (s / 8) & 15;
                    scale = (low | (load_weights1(block + 104 + s % 4) >> 2 * (s / 4) & 3) << 4) - 32;
                }
                HalfBlockBytes::store(p + SUB + s / 8 * HalfBlockBytes::BYTES, i, s % 8 / 2, s % 2, scale);
            }
            RowHalves::store(p + D, i, from.has(i, 0) ? load_weights2(block + 108) : 0);
        }
    }
};
