// What IQ2 and IQ3 share: the magnitudes of four weights (IQ3) or of eight (IQ2) are an entry of a grid, and each weight has a sign.
//
// A grid is made of words, one per quad of weights: four nibbles, each the index of a magnitude. Products keep it in shared
// memory. Weights are d·(2n + 1)·(±magnitude) with a nibble n for 32 weights or for 16; magnitudes of the records are whole
// numbers: POWER tells what they are multiples of.
//
// Record of 16 × 256, with entries of Q quads, from which Q lanes read:
//   lower eight bits of entries, both halves: {8 of row g, 8 of row g + 8} of blocks 0..3, 16 bytes for Q lanes
//   each upper bit of entries: bit 16c + 8i + 2j + half, 4 bytes for Q lanes
//   signs: {row g, row g + 8} of the first half, of the second, 16 bytes per lane; element e of quad m = 2j + half at bit
//   4e + m % 4 of the half word m / 4. Files have seven of eight where their number of minus signs is even
//   n as nibbles: {row g, row g + 8}, 8 bytes per g, twice that where there are two scales per 32 weights
//   d
#pragma once
#include "formats/planes.cuh"

// Eight signs of which seven are stored: the number of minus signs is even.
DEVICE unsigned even_signs(unsigned seven) {
    seven &= 127;
    unsigned odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    return seven | ((odd ^ odd >> 1) & 1) << 7;
}

// What a word has at bit `from`, moved to bit `to`; nothing else stays of what `mask` leaves out.
DEVICE unsigned moved(unsigned w, int from, int to, unsigned mask) { return (from > to ? w >> (from - to) : w << (to - from)) & mask; }

// Q: quads of an entry. UPPER: bits of an entry beyond eight.
template <int Q, int UPPER, int SCALES_>
struct GridFormat : Quantized {
    static constexpr int BLOCK = 256, COLUMNS = 256, SCALES = SCALES_, MIN = 0, INTEGER = 1;
    static constexpr int QUADS = Q, GRID = Q << (8 + UPPER);
    static constexpr int LOW = 512 / Q, HIGH = 128 / Q;  // bytes of a plane
    static constexpr int SIGNS = 2 * LOW + UPPER * HIGH, SUB = SIGNS + 512, D = SUB + 64 * SCALES;
    static constexpr int RECORD = D + RowHalves::BYTES;
    struct Held {
        uint4 low[2];
        unsigned high[2];
        uint4 signs, n;
        RowHalves d;
        const unsigned short* grid;  // of this lane: lend() sets it
    };
    DEVICE Held load(const unsigned char* p, int l) {
        const unsigned char* shared = p - 16 * l + 16 * (l / Q);
        const unsigned char* upper = p + 2 * LOW - 16 * l + 4 * (l / Q);
        Held h = {{load_weights16(shared), load_weights16(shared + LOW)}};
        for (int b = 0; b < UPPER; b++) h.high[b] = load_weights4(upper + b * HIGH);
        h.signs = load_weights16(p + SIGNS);
        if constexpr (SCALES == 1) {
            const uint2 n = load_weights8(p + SUB + of_row(l, 8));
            h.n = {n.x, n.y, 0, 0};
        } else {
            h.n = load_weights16(p + SUB + of_row(l));
        }
        h.d = RowHalves::load(p + D, l);
        return h;
    }
    // Entries are shared by as many lanes as they have words.
    DEVICE void lend(Held& h, int l, const unsigned short* grid) { h.grid = grid + l % Q; }
    // The magnitudes of a quad as nibbles.
    DEVICE unsigned magnitudes(const Held& h, int c, int i, int j, int half) {
        unsigned entry = (unsigned)unsigned_byte(word(h.low[c], 2 * i + j / 2), 2 * (j % 2) + half);
        for (int b = 0; b < UPPER; b++) entry |= moved(h.high[b], 16 * c + 8 * i + 2 * j + half, 8 + b, 256 << b);
        return h.grid[Q * entry];
    }
    // Its signs at the third bit of each nibble.
    DEVICE unsigned signs(const Held& h, int c, int i, int j, int half) {
        const int m = 2 * j + half;
        return moved(word(h.signs, 2 * c + i), m % 4 + m / 4 * 16, 2, 0x4444);
    }
    DEVICE int scale(const Held& h, int c, int i, int j, int half) {
        const unsigned w = SCALES == 1 ? word(h.n, i) : word(h.n, 2 * i + c);
        return (int)(moved(w, SCALES == 1 ? 4 * (4 * c + j) : 4 * (2 * j + half), 1, 30) | 1);
    }
    DEVICE float d(const Held& h, int i) { return h.d.at(i); }
};

// F reads blocks of a file: file_entry(block, j, e) of 32 weights j, file_signs(block, j, o), the eight of octet o, and
// file_nibbles(block, c), a word of n.
template <class F>
DEVICE void pack_grid(unsigned char* p, const FileRows& from) {
    const int t = lane() % 4, upper_bits = (F::SIGNS - 2 * F::LOW) / F::HIGH;
    unsigned low[2][4] = {}, high[2] = {}, signs[4] = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (!from.has(i, 0)) continue;
        const unsigned char* block = from.row[i] + from.first / 8 * F::BYTES;
#pragma unroll
        for (int at = 0; at < 16; at++) {
            const int c = at / 8, m = at % 8, quad = t + 4 * (m % 2);
            const unsigned entry = F::file_entry(block, at / 2, quad / F::QUADS);
            const unsigned four = F::file_signs(block, at / 2, quad / 2) >> 4 * (quad % 2);
            low[c][2 * i + m / 4] |= (entry & 255) << 8 * (m % 4);
            for (int b = 0; b < upper_bits; b++) high[b] |= (entry >> (8 + b) & 1) << (16 * c + 8 * i + m);
            for (int e = 0; e < 4; e++) signs[2 * c + i] |= (four >> e & 1) << (4 * e + m % 4 + m / 4 * 16);
        }
    }
    *(uint4*)(p + F::SIGNS + 16 * lane()) = {signs[0], signs[1], signs[2], signs[3]};
    if (t % F::QUADS == 0) {
        const int place = lane() / F::QUADS;
        for (int c = 0; c < 2; c++) *(uint4*)(p + c * F::LOW + 16 * place) = {low[c][0], low[c][1], low[c][2], low[c][3]};
        for (int b = 0; b < upper_bits; b++) *(unsigned*)(p + 2 * F::LOW + b * F::HIGH + 4 * place) = high[b];
    }
    if (t) return;
    for (int i = 0; i < 2; i++) {
        const unsigned char* block = from.has(i, 0) ? from.row[i] + from.first / 8 * F::BYTES : nullptr;
        for (int c = 0; c < F::SCALES; c++) {
            *(unsigned*)(p + F::SUB + 8 * F::SCALES * (lane() / 4) + 4 * (F::SCALES * i + c)) = block ? F::file_nibbles(block, c) : 0;
        }
        RowHalves::store(p + F::D, i, block ? load_weights2(block) : 0);
    }
}

// IQ2: the magnitudes 8, 25 and 43, in eighths.
template <int UPPER, int SCALES>
struct IQ2 : GridFormat<2, UPPER, SCALES> {
    using Base = GridFormat<2, UPPER, SCALES>;
    static constexpr int SMALL = 0, POWER = 3;
    DEVICE unsigned quad(const typename Base::Held& h, int c, int i, int j, int half) {
        return permute_bytes(0x002b1908, 0x00d5e7f8, Base::magnitudes(h, c, i, j, half) | Base::signs(h, c, i, j, half));
    }
};

// IQ3: eight magnitudes, A the first four bytes, B the others, and their negatives.
template <int UPPER, unsigned A, unsigned B, unsigned MINUS_A, unsigned MINUS_B>
struct IQ3 : GridFormat<1, UPPER, 1> {
    using Base = GridFormat<1, UPPER, 1>;
    DEVICE unsigned quad(const typename Base::Held& h, int c, int i, int j, int half) {
        const unsigned index = Base::magnitudes(h, c, i, j, half), signs = Base::signs(h, c, i, j, half);
        return permute_bytes(permute_bytes(A, B, index), permute_bytes(MINUS_A, MINUS_B, index), 0x3210 | signs);
    }
};

// The scales of IQ2_XXS and IQ3_XXS: the upper four bits of eight words.
DEVICE unsigned upper_nibbles(const unsigned char* words, int step) {
    unsigned nibbles = 0;
    for (int j = 0; j < 8; j++) nibbles |= load_weights1(words + step * j + 3) >> 4 << 4 * j;
    return nibbles;
}
