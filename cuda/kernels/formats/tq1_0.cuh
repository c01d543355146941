// TQ1_0: 256 ternary weights d·(q − 1) in 54 bytes: 48 bytes of five digits of base 3, four bytes of four, f16 d. A byte is the
// fraction that its digits are of 3^5, the first digit first: a digit is what is left of the point once the byte is multiplied by 3.
// Digit n of the first 32 bytes are weights 32n on, of the next 16 bytes 160 + 16n on, of the last four 240 + 4n on. Blocks are
// 2-byte aligned.
// Record of formats/two_bits.cuh.
#pragma once
#include "formats/two_bits.cuh"

struct TQ1_0 : TwoBits {
    static constexpr int BLOCK = 256, BYTES = 54;
    // Digit n of four bytes.
    DEVICE unsigned digits(const unsigned char* bytes, int n) {
        const unsigned power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
        unsigned four = 0;
        for (int e = 0; e < 4; e++) four |= ((load_weights1(bytes + e) * power & 255) * 3 >> 8) << 8 * e;
        return four;
    }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char *five = row + (block32 >> 3) * BYTES, *rest = five + 32;
        const int j = block32 & 7, n = 2 * (j - 5);
        if (j < 5) return {digits(five + 4 * t, j), digits(five + 16 + 4 * t, j)};
        return {digits(rest + 4 * t, n), j < 7 ? digits(rest + 4 * t, n + 1) : digits(rest + 16, t)};
    }
    DEVICE unsigned half(const unsigned char* row, int block32) { return load_weights2(row + (block32 >> 3) * BYTES + 52); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_as<TQ1_0>(p, from); }
};
