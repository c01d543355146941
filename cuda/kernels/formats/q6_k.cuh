// Q6_K: 256 weights in 16 sub-blocks of 16, each d·sc·(q − 32), in 210 bytes: 128 bytes of low nibbles, 64 bytes
// of upper two bits, 16 signed scales, f16 d. In each half of the block (128 weights) byte l of 64 holds
// weights l (low) and 64+l (high), and byte l of the 32 with upper bits weights l, 32+l, 64+l, 96+l at shifts
// 0, 2, 4, 6. Blocks are 2-byte aligned.
// Record of 16 × 256: nibbles of both halves, upper bits with the top one inverted (the sign of a byte 4·(q − 32)) of both, scales
// of both, d.
#pragma once
#include "formats/planes.cuh"

struct Q6_K : Quantized {
    static constexpr int BLOCK = 256, BYTES = 210, COLUMNS = 256;
    static constexpr int UPPER = 2 * Nibbles::BYTES, SUB = UPPER + 2 * Pairs::BYTES, D = SUB + 2 * HalfBlockBytes::BYTES;
    static constexpr int RECORD = D + RowHalves::BYTES;
    static constexpr int SCALES = 2, MIN = 0, INTEGER = 1, SMALL = 0, POWER = 2;
    struct Held {
        Nibbles q[2];
        Pairs upper[2];
        HalfBlockBytes s[2];
        RowHalves d;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {{Nibbles::load(p), Nibbles::load(p + Nibbles::BYTES)},
                {Pairs::load(p + UPPER), Pairs::load(p + UPPER + Pairs::BYTES)},
                {HalfBlockBytes::load(p + SUB, l), HalfBlockBytes::load(p + SUB + HalfBlockBytes::BYTES, l)},
                RowHalves::load(p + D, l)};
    }
    DEVICE unsigned quad(const Held& h, int c, int i, int j, int half) {
        unsigned low = half ? word(h.q[c].row[i], j) >> 2 : word(h.q[c].row[i], j) << 2;
        return (low & 0x3c3c3c3c) | h.upper[c].quad<6>(i, j, half);
    }
    DEVICE int scale(const Held& h, int c, int i, int j, int half) { return h.s[c].signed_at(i, j, half); }
    DEVICE float d(const Held& h, int i) { return h.d.at(i); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + (block32 >> 3) * BYTES;
        int i = block32 & 7, half = i >> 2, j = i & 3, shift = 4 * (j >> 1);
        const unsigned char *low = block + 64 * half + 32 * (j & 1) + 4 * t, *high = block + 128 + 32 * half + 4 * t;
        return {(read_u32_at_2(low) >> shift & 0x0f0f0f0f) | (rotate_left(read_u32_at_2(high), 4 - 2 * j) & 0x30303030),
                (read_u32_at_2(low + 16) >> shift & 0x0f0f0f0f) | (rotate_left(read_u32_at_2(high + 16), 4 - 2 * j) & 0x30303030)};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        for (int c = 0; c < 2; c++) {
            Codes q = ::codes<Q6_K>(from, 4 * c);
            Nibbles::store(p + c * Nibbles::BYTES, q);
            Pairs::store<4, 2>(p + UPPER + c * Pairs::BYTES, q);
        }
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            const unsigned char* block = from.row[i] + from.first / 8 * BYTES;
            for (int s = 0; s < 16; s++) {
                unsigned scale = from.has(i, 0) ? load_weights1(block + 192 + s) : 0;
                HalfBlockBytes::store(p + SUB + s / 8 * HalfBlockBytes::BYTES, i, s % 8 / 2, s % 2, scale);
            }
            RowHalves::store(p + D, i, from.has(i, 0) ? load_weights2(block + 208) : 0);
        }
    }
};
