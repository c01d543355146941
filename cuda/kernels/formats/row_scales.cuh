// Scales and minimums of Q4_K and Q5_K in a record: 16 bytes per row of 256: {low nibbles of the scales and minimums of the first
// four sub-blocks, of the last four, their upper two bits, d and dmin}, so that four sub-blocks unpack in three instructions.
#pragma once
#include "formats/planes.cuh"

struct RowScales {
    static constexpr int BYTES = 256;
    uint4 row[2];
    DEVICE RowScales load(const unsigned char* p, int l) {
        return {{load_weights16(p + of_row(l)), load_weights16(p + 128 + of_row(l))}};
    }
    // Of sub-block 4c + j.
    __device__ __forceinline__ int scale(int c, int i, int j) const {
        unsigned four = (word(row[i], c) & 0x0f0f0f0f) | ((c ? row[i].z : row[i].z << 4) & 0x30303030);
        return unsigned_byte(four, j);
    }
    __device__ __forceinline__ float minimum(int c, int i, int j) const {
        unsigned four = (word(row[i], c) >> 4 & 0x0f0f0f0f) | ((c ? row[i].z >> 2 : row[i].z << 2) & 0x30303030);
        return (float)unsigned_byte(four, j);
    }
    __device__ __forceinline__ float d(int i) const { return low_half(row[i].w); }
    __device__ __forceinline__ float dmin(int i) const { return high_half(row[i].w); }
    template <class F>
    DEVICE void pack(unsigned char* p, const FileRows& from) {
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            uint4 packed = {0, 0, 0, 0};
            if (from.has(i, 0)) {
                uint4 header = load_weights16(from.row[i] + from.first / 8 * F::BYTES);
                unsigned low[2] = {0, 0}, high = 0;
                for (int s = 0; s < 8; s++) {
                    unsigned both = scale_min(header, s), c = s / 4, byte = 8 * (s % 4);
                    low[c] |= ((both & 15) | (both >> 8 & 15) << 4) << byte;
                    high |= ((both >> 4 & 3) | (both >> 12 & 3) << 2) << 4 * c << byte;
                }
                packed = {low[0], low[1], high, header.x};
            }
            *(uint4*)(p + 128 * i + 16 * (lane() / 4)) = packed;
        }
    }
};
