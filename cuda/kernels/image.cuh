// Activations in int8, as quantized matmuls read them (ggml's q8_1 in three planes): columns (rows of the chunk) of k elements,
// k a multiple of 32, as x ≈ d·q per block of 32.
#pragma once
#include "ptx.cuh"

struct QuantizedActivations {
    signed char* q;  // [column][k], octet order: byte 8t+i of a block is element 4t+i, byte 8t+4+i element 16+4t+i
    float* d;        // [column][k/32]: max|x|/127
    float* s;        // [column][k/16]: d·Σq of each half block, what minimums are multiplied with
};

// Byte of element e (0..31) in its block.
DEVICE int image_place(int e) { return (e & 12) << 1 | (e & 16) >> 2 | (e & 3); }

// |x| as bits: they grow with it, infinity is above all numbers, and NaN above that.
DEVICE unsigned magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// a / b from inverse = 1 / b, where nothing is subnormal: three instructions, not a dozen.
DEVICE float quotient(float a, float b, float inverse) {
    const float q = product(a, inverse);
    return fmaf(fmaf(-b, q, a), inverse, q);
}

// How the numbers of a block become integers. A block with a NaN or an infinity becomes NaN as a whole (its scale is NaN),
// so that it cannot pass unnoticed.
struct BlockScale {
    static constexpr unsigned ZERO = 0x4b400000;  // 1.5 · 2^23, where one step of an f32 is 1: a sum rounds to an integer
    float d;
    float up;  // a power of two that takes tiny numbers to where their quotients are exact
    float d_up, inverse;
    int some;  // 0: all q are 0, where all numbers are, and where d is NaN
    // `most`: the largest magnitude of the block.
    __device__ __forceinline__ explicit BlockScale(unsigned most) {
        d = quotient(__uint_as_float(most), 127.0f, 1.0f / 127.0f);
        some = d > 0.0f;
        up = d < 0x1p-100f ? 0x1p100f : 1.0f;
        d_up = product(d, up);
        inverse = ::inverse(d_up);
    }
    // x / d rounded to an integer, to even, plus ZERO: its low byte is q. Anything where all q are 0.
    __device__ __forceinline__ unsigned integer(float x) const {
        return __float_as_uint(sum(quotient(product(x, up), d_up, inverse), __uint_as_float(ZERO)));
    }
    __device__ __forceinline__ float scaled(int sum) const { return product(d, (float)sum); }
};

// One warp quantizes one block of 32: lane l holds element l.
DEVICE void quantize_block(const QuantizedActivations& image, int column, int k, int block, float x) {
    int e = lane();
    const BlockScale scale(warp_max(magnitude(x)));
    int q = scale.some ? (int)(scale.integer(x) - BlockScale::ZERO) : 0;
    const int sum = group_sum<16>(q);
    size_t at = (size_t)column * k + 32 * block;
    image.q[at + image_place(e)] = (signed char)q;
    if (e == 0) image.d[at >> 5] = scale.d;
    if ((e & 15) == 0) image.s[(at + e) >> 4] = scale.scaled(sum);
}

// One warp quantizes four blocks in a row, eight lanes each: a lane holds the four elements from `at` on of the plane; the same
// bits. Stores where `store` says so, which is the same for a block.
DEVICE void quantize_quads(const QuantizedActivations& image, size_t at, const float x[4], int store) {
    const unsigned most = max(max(magnitude(x[0]), magnitude(x[1])), max(magnitude(x[2]), magnitude(x[3])));
    const BlockScale scale(group_max<8>(most));
    const unsigned a = scale.integer(x[0]), b = scale.integer(x[1]), c = scale.integer(x[2]), d = scale.integer(x[3]);
    const unsigned bytes = permute_bytes(permute_bytes(a, b, 0x0040), permute_bytes(c, d, 0x0040), 0x5410);
    const int sum = group_sum<4>(scale.some ? (int)(a + b + c + d - 4 * BlockScale::ZERO) : 0);
    if (!store) return;
    const int e = 4 * (lane() & 7);
    *(unsigned*)(image.q + (at & ~(size_t)31) + image_place(e)) = scale.some ? bytes : 0;
    if (e == 0) image.d[at >> 5] = scale.d;
    if ((e & 15) == 0) image.s[at >> 4] = scale.scaled(sum);
}
