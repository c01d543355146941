// What IQ1_S and IQ1_M share: eight weights d·(2n + 1)·(g ± ⅛) are an entry of a grid of 2048, whose g are −1, 0 and 1, and one
// bit says whether all eight are moved down.
//
// The grid has a word per entry: nibble e has two bits for element e of the first quad, and above them two for that of the second.
// Weights are whole numbers of eighths: POWER.
//
// Record of 16 × 256, of which two lanes read the planes of entries:
//   lower eight bits of entries, both halves: {8 of row g, 8 of row g + 8} of blocks 0..3, 16 bytes for two lanes
//   their upper three bits, and whether they are moved down: nibble 2j + half of {row g, row g + 8} of the first half, of the second,
//   16 bytes for two lanes
//   n as nibbles of 16 weights: {row g, row g + 8}, 16 bytes per g
//   d (1.8125 bits per weight; the files have 1.5625 and 1.75)
#pragma once
#include "formats/grid.cuh"

struct IQ1 : Quantized {
    static constexpr int BLOCK = 256, COLUMNS = 256, SCALES = 2, MIN = 0, INTEGER = 1, SMALL = 1, POWER = 3;
    static constexpr int GRID = 2048;
    static constexpr int LOW = 256, UPPER = 2 * LOW, SUB = UPPER + 256, D = SUB + 128, RECORD = D + RowHalves::BYTES;
    struct Held {
        uint4 low[2], upper, n;
        RowHalves d;
        const unsigned short* grid;  // lend() sets it, and where this lane's quad is in a word
        int shift;
    };
    DEVICE Held load(const unsigned char* p, int l) {
        const unsigned char* shared = p - 16 * l + 16 * (l / 2);
        return {{load_weights16(shared), load_weights16(shared + LOW)},
                load_weights16(shared + UPPER),
                load_weights16(p + SUB + of_row(l)),
                RowHalves::load(p + D, l)};
    }
    DEVICE void lend(Held& h, int l, const unsigned short* grid) { h.grid = grid, h.shift = 2 * (l % 2); }
    DEVICE unsigned quad(const Held& h, int c, int i, int j, int half) {
        const unsigned low = (unsigned)unsigned_byte(word(h.low[c], 2 * i + j / 2), 2 * (j % 2) + half);
        const unsigned upper = word(h.upper, 2 * c + i);
        const int at = 4 * (2 * j + half);
        const unsigned values = h.grid[low | moved(upper, at, 8, 0x700)] >> h.shift & 0x3333;
        return permute_bytes(0x000901f9, 0x0007fff7, values + moved(upper, at + 3, 2, 4) * 0x1111);
    }
    DEVICE int scale(const Held& h, int c, int i, int j, int half) {
        return (int)(moved(word(h.n, 2 * i + c), 4 * (2 * j + half), 1, 14) | 1);
    }
    DEVICE float d(const Held& h, int i) { return h.d.at(i); }
    // F reads blocks of a file: entry(block, j, e), its 11 bits and above them whether it is moved down; n(block, j, half); half(block).
    template <class F>
    DEVICE void pack_as(unsigned char* p, const FileRows& from) {
        const int t = lane() % 4;
        unsigned low[2][4] = {}, upper[4] = {};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (!from.has(i, 0)) continue;
            const unsigned char* block = from.row[i] + from.first / 8 * F::BYTES;
#pragma unroll
            for (int at = 0; at < 16; at++) {
                const int c = at / 8, m = at % 8;
                const unsigned entry = F::entry(block, at / 2, t / 2 + 2 * (m % 2));
                low[c][2 * i + m / 4] |= (entry & 255) << 8 * (m % 4);
                upper[2 * c + i] |= entry >> 8 << 4 * m;
            }
        }
        if (t % 2 == 0) {
            const int place = 16 * (lane() / 2);
            for (int c = 0; c < 2; c++) *(uint4*)(p + c * LOW + place) = {low[c][0], low[c][1], low[c][2], low[c][3]};
            *(uint4*)(p + UPPER + place) = {upper[0], upper[1], upper[2], upper[3]};
        }
        if (t) return;
        for (int i = 0; i < 2; i++) {
            const unsigned char* block = from.has(i, 0) ? from.row[i] + from.first / 8 * F::BYTES : nullptr;
            for (int c = 0; c < 2; c++) {
                unsigned n = 0;
                for (int s = 0; block && s < 8; s++) n |= F::n(block, 4 * c + s / 2, s % 2) << 4 * s;
                *(unsigned*)(p + SUB + 16 * (lane() / 4) + 4 * (2 * i + c)) = n;
            }
            RowHalves::store(p + D, i, block ? F::half(block) : 0);
        }
    }
};
