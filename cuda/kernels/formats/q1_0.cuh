// Q1_0: 128 weights, each d or −d, in 18 bytes: f16 d, then a bit per weight, the first one lowest: 1 is d. Blocks are 2-byte
// aligned.
// Record of 16 × 128: inverted bits (the sign of a byte ±64); d.
#pragma once
#include "formats/planes.cuh"

struct Q1_0 : Quantized {
    static constexpr int BLOCK = 128, BYTES = 18, COLUMNS = 128;
    static constexpr int RECORD = Bits::BYTES + RowHalves::BYTES;
    static constexpr int SCALES = 1, MIN = 0, INTEGER = 0, POWER = 6;
    struct Held {
        Bits q;
        RowHalves d;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        return {Bits::load(p, l), RowHalves::load(p + Bits::BYTES, l)};
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) { return h.q.quad<7>(i, j, half) | 0x40404040; }
    DEVICE float scale(const Held& h, int i, int) { return h.d.at(i); }
    // Bits 0..3 as four bytes.
    DEVICE unsigned spread(unsigned bits) { return fifth_bits(bits) >> 4; }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned bits = read_u32_at_2(row + block32 / 4 * BYTES + 2 + 4 * (block32 % 4)) >> 4 * t;
        return {spread(bits), spread(bits >> 16)};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Bits::store<0, 1>(p, ::codes<Q1_0>(from, 0));
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            const unsigned char* block = from.row[i] + from.first / 4 * BYTES;
            RowHalves::store(p + Bits::BYTES, i, from.has(i, 0) ? load_weights2(block) : 0);
        }
    }
};
