// What several formats share: bits spread over bytes, the table of IQ4, the packed scales of Q4_K and Q5_K in the file.
#pragma once
#include "ptx.cuh"

// Base of the formats made of blocks.
struct Quantized {
    static constexpr int DENSE = 0;
    static constexpr int GRID = 0;
    static constexpr int SCALED = 0;
};

// `count` may be any number; only its low five bits count.
DEVICE unsigned rotate_left(unsigned x, int count) {
    return x << (count & 31) | x >> (-count & 31);
}

DEVICE float low_half(unsigned pair) { return f16_to_f32((unsigned short)pair); }
DEVICE float high_half(unsigned pair) { return f16_to_f32((unsigned short)(pair >> 16)); }

// Bits 0..3 as bit 4 of four bytes. The products are 7 bits apart, so that no carries meet.
DEVICE unsigned fifth_bits(unsigned bits) { return (bits & 15) * 0x02040810 & 0x10101010; }

struct Quads {
    unsigned low, high;
};

// The entries of a table of sixteen bytes (A: 0-3 … D: 12-15) for eight nibbles: those of the low ones and those of the
// high ones.
template <unsigned A, unsigned B, unsigned C, unsigned D>
DEVICE Quads look_up(unsigned nibbles) {
    unsigned index = nibbles & 0x77777777, upper = 0x32103210 | (nibbles >> 1 & 0x44444444);
    unsigned even = permute_bytes(permute_bytes(A, B, index), permute_bytes(C, D, index), upper);
    index >>= 16;
    unsigned odd = permute_bytes(permute_bytes(A, B, index), permute_bytes(C, D, index), upper >> 16);
    return {permute_bytes(even, odd, 0x6420), permute_bytes(even, odd, 0x7531)};
}
// The table of IQ4_NL and IQ4_XS: -127 -104 -83 -65 -49 -35 -22 -10, 1 13 25 38 53 69 89 113.
DEVICE Quads look_up_iq4(unsigned nibbles) { return look_up<0xbfad9881, 0xf6eaddcf, 0x26190d01, 0x71594535>(nibbles); }

// Scales (byte 0) and minimums (byte 1) of sub-block i (0..7) of Q4_K and Q5_K, six bits each, from the first 16 bytes of the
// block: d, dmin (f16), then twelve bytes. Bytes 0-3 hold scales 0-3 and bytes 4-7 minimums 0-3 in their low six bits; byte
// 8+j holds the low nibbles of scale 4+j and minimum 4+j, whose upper two bits fill up bytes j and 4+j.
DEVICE unsigned scale_min(uint4 header, int i) {
    // Upper sub-blocks have their low nibbles elsewhere and their high bits two further up.
    int j = i & 3, upper = i >> 2, choose = 0x40 + 0x11 * j;
    unsigned pair = permute_bytes(header.y, header.z, choose);
    unsigned low = upper ? permute_bytes(header.w, header.w >> 4, choose) : pair;
    return (low & 0x0f0f) | (pair >> 2 * upper & 0x3030);
}
