// One warp's dot products of a few weight rows with up to C columns.
#pragma once
#include "matmul.cuh"

// What a matmul multiplies with: columns of k elements.
struct Input {
    QuantizedActivations image;
    const float* x;
    int k, columns;
};

// A lane's part of the dot products of R rows and C columns: where it reads, and what it has summed. Two lanes share a block: lane 2g+u reads
// octets 2u and 2u+1 of blocks g, g+16, …, whose scales are then read and unpacked once.
template <class F, int R, int C>
struct WarpDot {
    static constexpr int BLOCKS = 16, STEP = 32 * BLOCKS / F::BLOCK * F::BYTES;
    const unsigned char* row[R];
    const signed char* q[C];
    const float *d[C], *s[C];
    int g, u;
    float sum[R][C], minimum[R][C];

    __device__ __forceinline__ void start(const Input& in, int first) {
        g = lane() >> 1;
        u = lane() & 1;
        for (int c = 0; c < C; c++) {
            size_t block = (size_t)min(first + c, in.columns - 1) * (in.k >> 5) + g;
            q[c] = in.image.q + block * 32 + 16 * u;
            d[c] = in.image.d + block;
            s[c] = in.image.s + block * 2 + u;
        }
    }
    // Sixteen blocks, `ahead` steps from here.
    __device__ __forceinline__ void step(int ahead) {
        typename F::Octet w[R], v[R];
        for (int r = 0; r < R; r++) {
            w[r] = F::octet(row[r] + ahead * STEP, g, 2 * u);
            v[r] = F::octet(row[r] + ahead * STEP, g, 2 * u + 1);
        }
        for (int c = 0; c < C; c++) {
            uint4 a = *(const uint4*)(q[c] + 32 * BLOCKS * ahead);
            float scale = d[c][BLOCKS * ahead];
            for (int r = 0; r < R; r++) {
                int dot = dp4a(v[r].q0, a.z, dp4a(w[r].q0, a.x, 0));
                if (F::SCALES == 1) {
                    sum[r][c] += scale * (w[r].d0 * (float)dp4a(v[r].q1, a.w, dp4a(w[r].q1, a.y, dot)));
                } else {
                    // A fixed rounding, as in gemm_int8.cuh: which of two products joins the FMA is not the compiler's choice.
                    float later = product(w[r].d1, (float)dp4a(v[r].q1, a.w, dp4a(w[r].q1, a.y, 0)));
                    sum[r][c] += scale * (w[r].d0 * (float)dot + later);
                }
            }
            // Each lane takes the minimums of one half of the block.
            if (F::MIN) {
                float image_sum = s[c][2 * BLOCKS * ahead];
                for (int r = 0; r < R; r++) {
                    float first = F::ZERO ? w[r].d0 : w[r].m0, second = F::ZERO ? w[r].d1 : w[r].m1;
                    minimum[r][c] += (F::SCALES == 2 && u ? second : first) * image_sum;
                }
            }
        }
    }
    __device__ __forceinline__ void advance(int steps) {
        for (int r = 0; r < R; r++) row[r] += steps * STEP;
        for (int c = 0; c < C; c++) {
            q[c] += 32 * BLOCKS * steps;
            d[c] += BLOCKS * steps;
            s[c] += 2 * BLOCKS * steps;
        }
    }
    __device__ __forceinline__ float total(int r, int c) const {
        return warp_sum(F::MIN ? fmaf(-(float)(F::ZERO ? F::ZERO : 1), minimum[r][c], sum[r][c]) : sum[r][c]);
    }
};

// y[r·C + c] = row[r]·(column first + c), in every lane; columns past the last repeat it. The order of the sums
// depends on k alone. UNROLL: steps (1 or 2) whose loads are in flight together.
template <class F, int R, int C, int UNROLL>
DEVICE void quantized_dot(const unsigned char* const (&row)[R], const Input& in, int first, float (&y)[R * C]) {
    WarpDot<F, R, C> at = {};
    at.start(in, first);
    for (int r = 0; r < R; r++) at.row[r] = row[r];
    int blocks = in.k >> 5, steps = blocks / at.BLOCKS;
#pragma unroll 1
    for (; steps >= UNROLL; steps -= UNROLL) {
#pragma unroll
        for (int ahead = 0; ahead < UNROLL; ahead++) at.step(ahead);
        at.advance(UNROLL);
    }
    if (UNROLL == 2 && steps) {
        at.step(0);
        at.advance(1);
    }
    if (at.g < blocks % at.BLOCKS) at.step(0);
    for (int r = 0; r < R; r++) {
        for (int c = 0; c < C; c++) y[r * C + c] = at.total(r, c);
    }
}

// The same for dense weights: four elements per lane and step, or one where rows are not aligned.
template <class F, int R, int C>
DEVICE void dense_dot(const unsigned char* const (&row)[R], const Input& in, int first, float (&y)[R * C]) {
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
        for (int c = 0; c < C; c++) y[r * C + c] = warp_sum(sum[r][c]);
    }
}

// The same for any weights.
template <class F, int R, int C, int UNROLL>
DEVICE void dot(const unsigned char* const (&row)[R], const Input& in, int first, float (&y)[R * C]) {
    if constexpr (F::DENSE) {
        dense_dot<F, R, C>(row, in, first, y);
    } else {
        quantized_dot<F, R, C, UNROLL>(row, in, first, y);
    }
}

template <class F>
DEVICE size_t row_bytes(int k) {
    return (size_t)(k / F::BLOCK) * F::BYTES;
}
