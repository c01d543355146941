// Q8_0: 32 weights d·q in 34 bytes: f16 d, then 32 signed bytes. Blocks are 2-byte aligned.
// Record of 16 × 128: block j as 16 bytes per lane {row g low quad, row g + 8 low, g high, g + 8 high}, which is what mma takes;
// then d.
#pragma once
#include "formats/planes.cuh"

struct Q8_0 : Quantized {
    static constexpr int BLOCK = 32, BYTES = 34, COLUMNS = 128, RECORD = 2048 + Halves::BYTES;
    static constexpr int SCALES = 1, MIN = 0, INTEGER = 0, POWER = 0;
    struct Held {
        uint4 q[4];
        Halves d;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        Held h;
        for (int j = 0; j < 4; j++) h.q[j] = load_weights16(p + 512 * j);
        h.d = Halves::load(p + 2048, l);
        return h;
    }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) {
        // An index that is not known would make memory of the registers.
        const int k = i + 2 * half;
        return word({word(h.q[0], k), word(h.q[1], k), word(h.q[2], k), word(h.q[3], k)}, j);
    }
    DEVICE float scale(const Held& h, int i, int j) { return h.d.at(i, j); }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* block = row + block32 * BYTES;
        return {read_u32_at_2(block + 2 + 4 * t), read_u32_at_2(block + 18 + 4 * t)};
    }
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        Codes c = ::codes<Q8_0>(from, 0);
        for (int j = 0; j < 4; j++) {
            *(uint4*)(p + 512 * j + 16 * lane()) = {c.q[0][j].low, c.q[1][j].low, c.q[0][j].high, c.q[1][j].high};
        }
        pack_halves<Q8_0>(p + 2048, from);
    }
};
