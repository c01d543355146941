// One warp's dot products of a few weight rows with up to C columns.
#pragma once
#include "matmul.cuh"

// What a matmul multiplies with: columns of k elements.
struct Input {
    Image image;
    const float* x;
    int k, columns;
};

// Where a lane stands in R rows and C columns, and what it has summed. Lane 4g+t reads octet t of blocks g, g+8, …
template <class F, int R, int C>
struct Walk {
    static constexpr int STEP = 256 / F::BLOCK * F::BYTES;  // eight blocks of 32
    const unsigned char* row[R];
    const signed char* q[C];
    const float *d[C], *s[C];
    int g, t;
    float sum[R][C], minimum[R][C];

    // Eight blocks, `ahead` steps of eight from here.
    __device__ __forceinline__ void step(int ahead) {
        typename F::Octet w[R];
        for (int r = 0; r < R; r++) w[r] = F::octet(row[r] + ahead * STEP, g, t);
        for (int c = 0; c < C; c++) {
            uint2 a = *(const uint2*)(q[c] + 256 * ahead);
            float scale = d[c][8 * ahead];
            for (int r = 0; r < R; r++) {
                if (F::SCALES == 1) {
                    sum[r][c] += scale * (w[r].d0 * (float)dp4a(w[r].q1, a.y, dp4a(w[r].q0, a.x, 0)));
                } else {
                    sum[r][c] += scale * (w[r].d0 * (float)dp4a(w[r].q0, a.x, 0) + w[r].d1 * (float)dp4a(w[r].q1, a.y, 0));
                }
            }
            // Even lanes sum the minimums of the first half of the block, odd lanes those of the second: each
            // twice, which `total` halves.
            if (F::MIN) {
                float image_sum = s[c][16 * ahead];
                for (int r = 0; r < R; r++) {
                    float first = F::ZERO ? w[r].d0 : w[r].m0, second = F::ZERO ? w[r].d1 : w[r].m1;
                    minimum[r][c] += (F::SCALES == 2 && t & 1 ? second : first) * image_sum;
                }
            }
        }
    }
    __device__ __forceinline__ void advance(int steps) {
        for (int r = 0; r < R; r++) row[r] += steps * STEP;
        for (int c = 0; c < C; c++) {
            q[c] += 256 * steps;
            d[c] += 8 * steps;
            s[c] += 16 * steps;
        }
    }
    __device__ __forceinline__ float total(int r, int c) const {
        float sum = F::MIN ? this->sum[r][c] - (F::ZERO ? 0.5f * F::ZERO : 0.5f) * minimum[r][c] : this->sum[r][c];
        return warp_sum(sum);
    }
};

// y[r][c] = row[r]·(column first + c), in every lane; columns past the last repeat it. The order of the sums
// depends on k alone.
template <class F, int R, int C>
DEVICE void quantized_dot(const unsigned char* const (&row)[R], const Input& in, int first, float (&y)[R][C]) {
    constexpr int UNROLL = C == 1 ? 4 : 1;
    Walk<F, R, C> at = {};
    at.g = lane() >> 2;
    at.t = lane() & 3;
    for (int r = 0; r < R; r++) at.row[r] = row[r];
    int blocks = in.k >> 5;
    for (int c = 0; c < C; c++) {
        size_t block = (size_t)min(first + c, in.columns - 1) * blocks + at.g;
        at.q[c] = in.image.q + block * 32 + 8 * at.t;
        at.d[c] = in.image.d + block;
        at.s[c] = in.image.s + block * 2 + (at.t & 1);
    }
    int steps = blocks >> 3;
    for (; steps >= UNROLL; steps -= UNROLL) {
#pragma unroll
        for (int ahead = 0; ahead < UNROLL; ahead++) at.step(ahead);
        at.advance(UNROLL);
    }
#pragma unroll 1
    for (; steps > 0; steps--) {
        at.step(0);
        at.advance(1);
    }
    if (at.g < (blocks & 7)) at.step(0);
    for (int r = 0; r < R; r++) {
        for (int c = 0; c < C; c++) y[r][c] = at.total(r, c);
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
