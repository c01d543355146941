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

// One warp quantizes one block of 32: lane l holds element l. A block with a NaN or an infinity becomes NaN
// as a whole (its scale is not finite), so that it cannot pass unnoticed.
DEVICE void quantize_block(const QuantizedActivations& image, int column, int k, int block, float x) {
    int e = lane();
    float d = warp_max(fabsf(x)) / 127.0f;
    if (ballot((int)(x != x))) d = __uint_as_float(0x7fffffff);
    int finite = d < INFINITY;
    int q = finite && d > 0.0f ? (int)rintf(x / d) : 0;
    int sum = q;
    for (int half = 1; half < 16; half *= 2) sum += shuffle_xor(sum, half);
    size_t at = (size_t)column * k + 32 * block;
    image.q[at + image_place(e)] = (signed char)q;
    if (e == 0) image.d[at >> 5] = d;
    if ((e & 15) == 0) image.s[(at + e) >> 4] = finite ? d * (float)sum : d;
}
