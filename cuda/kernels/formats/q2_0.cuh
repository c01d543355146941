// Q2_0: 64 weights d·(q − 1) in 18 bytes: f16 d, then 2-bit values, weight i in byte i / 4 at shift 2·(i % 4). Blocks are 2-byte
// aligned.
// Record of formats/two_bits.cuh.
#pragma once
#include "formats/two_bits.cuh"

struct Q2_0 : TwoBits {
    static constexpr int BLOCK = 64, BYTES = 18;
    // Four 2-bit values of a byte as bytes.
    DEVICE unsigned spread(unsigned byte) {
        const unsigned nibbles = (byte | byte << 12) & 0x000f000f;
        return (nibbles | nibbles << 6) & 0x03030303;
    }
    DEVICE Quads codes(const unsigned char* row, int block32, int t) {
        const unsigned char* qs = row + block32 / 2 * BYTES + 2 + 8 * (block32 % 2) + t;
        return {spread(load_weights1(qs)), spread(load_weights1(qs + 4))};
    }
    DEVICE unsigned half(const unsigned char* row, int block32) { return load_weights2(row + block32 / 2 * BYTES); }
    DEVICE void pack(unsigned char* p, const FileRows& from) { pack_as<Q2_0>(p, from); }
};
