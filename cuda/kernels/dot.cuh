// One warp's dot products of a few weight rows with up to C columns.
#pragma once
#include "matmul.cuh"

// What a matmul multiplies with: columns of k elements.
struct Input {
    Image image;
    const float* x;
    int k, columns;
};

// y[r][c] = row[r]·(column first + c), in every lane; columns past the last repeat it. Lane 4g+t reads octet t
// of blocks g, g+8, …: the order of the sums depends on k alone.
template <class F, int R, int C>
DEVICE void quantized_dot(const unsigned char* const (&row)[R], const Input& in, int first,
                                                                                                          float (&y)[R][C]) {
    int g = lane() >> 2, t = lane() & 3, half = t & 1, blocks = in.k >> 5;
    const signed char* q[C];
    const float *d[C], *s[C];
    for (int c = 0; c < C; c++) {
        size_t at = (size_t)min(first + c, in.columns - 1) * blocks + g;
        q[c] = in.image.q + at * 32 + 8 * t;
        d[c] = in.image.d + at;
        s[c] = in.image.s + at * 2 + half;
    }
    float sum[R][C] = {}, minimum[R][C] = {};
    for (int n = 0; 8 * n + g < blocks; n++) {
        typename F::Octet w[R];
        for (int r = 0; r < R; r++) w[r] = F::octet(row[r], 8 * n + g, t);
        for (int c = 0; c < C; c++) {
            uint2 a = *(const uint2*)(q[c] + 256 * n);
            float scale = d[c][8 * n];
            for (int r = 0; r < R; r++) {
                if (F::SCALES == 1) {
                    sum[r][c] += scale * (w[r].d0 * (float)dp4a(w[r].q1, a.y, dp4a(w[r].q0, a.x, 0)));
                } else {
                    sum[r][c] += scale * (w[r].d0 * (float)dp4a(w[r].q0, a.x, 0) + w[r].d1 * (float)dp4a(w[r].q1, a.y, 0));
                }
            }
            // Even lanes subtract the minimums of the first half of the block, odd lanes those of the second: each
            // twice, which the factor below halves.
            if (F::MIN) {
                float total = s[c][16 * n];
                for (int r = 0; r < R; r++) {
                    float first_half = F::ZERO ? w[r].d0 : w[r].m0, second_half = F::ZERO ? w[r].d1 : w[r].m1;
                    minimum[r][c] += (F::SCALES == 2 && half ? second_half : first_half) * total;
                }
            }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int c = 0; c < C; c++) {
            y[r][c] = warp_sum(F::MIN ? sum[r][c] - (F::ZERO ? 0.5f * F::ZERO : 0.5f) * minimum[r][c] : sum[r][c]);
        }
    }
}

// The same for dense weights: four elements per lane and step, or one where rows are not aligned.
template <class F, int R, int C>
DEVICE void dense_dot(const unsigned char* const (&row)[R], const Input& in, int first,
                                                                                                  float (&y)[R][C]) {
    const float* x[C];
    for (int c = 0; c < C; c++) x[c] = in.x + (size_t)min(first + c, in.columns - 1) * in.k;
    float sum[R][C] = {};
    if (in.k & 3) {
        for (int i = lane(); i < in.k; i += 32) {
            for (int r = 0; r < R; r++) {
                float w = F::one(row[r], i);
                for (int c = 0; c < C; c++) sum[r][c] += w * x[c][i];
            }
        }
    } else {
        for (int i = 4 * lane(); i < in.k; i += 128) {
            float4 w[R];
            for (int r = 0; r < R; r++) w[r] = F::four(row[r], i);
            for (int c = 0; c < C; c++) {
                float4 v = *(const float4*)(x[c] + i);
                for (int r = 0; r < R; r++) {
                    sum[r][c] += w[r].x * v.x;
                    sum[r][c] += w[r].y * v.y;
                    sum[r][c] += w[r].z * v.z;
                    sum[r][c] += w[r].w * v.w;
                }
            }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int c = 0; c < C; c++) y[r][c] = warp_sum(sum[r][c]);
    }
}

template <class F>
DEVICE size_t row_bytes(int k) {
    return (size_t)(k / F::BLOCK) * F::BYTES;
}
