// One warp's dot products of a few rows of dense weights with up to C columns.
#pragma once
#include "matmul.cuh"

// What a matmul multiplies with: columns of k elements, `step` from one to the next.
struct Input {
    const float* x;
    int k, step;
    ColumnTile columns;
};

// y[r·C + c] = row[r]·(column first + c), in every lane; columns past the last repeat it (C = 1: `first` is where the column
// lies). The order of the sums depends on k alone. Four elements per lane and step, or one where rows are not aligned.
template <class F, int R, int C>
DEVICE void dot(const unsigned char* const (&row)[R], const Input& in, int first, float (&y)[R * C]) {
    const float* x[C];
    for (int c = 0; c < C; c++) {
        const int column = C == 1 ? first : in.columns.x_column(min(first + c, in.columns.end - 1));
        x[c] = in.x + (size_t)column * in.step;
    }
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

template <class F>
DEVICE size_t row_bytes(int k) {
    return (size_t)(k / F::BLOCK) * F::BYTES;
}
