// The gate of a feed-forward layer for many columns: activation(gate)·up of what products have written; or without a gate the
// activation alone.
//
// Grid: ceil(rows / 1024) × columns blocks of 256 threads, no shared memory. Moves 8 bytes in and 1.375 (quantized) or 4 (f32)
// out per result.
#include "ptx.cuh"
#include "activation.cuh"
#include "norm.cuh"

struct GluActParams {
    const float* gate;  // [columns][stride]
    const float* up;    // [columns][up_stride], or null: the activation alone
    int stride;
    int rows;
    int columns;
    int activation;
    float* y;  // [columns][y_stride], or null
    int y_stride;
    int up_stride;
    QuantizedActivations out;       // the same as an image of k = rows (a multiple of 32), or null
    const int* seq;  // as in MatmulParams
};

constexpr int WARPS = 8, ROWS = 128;  // of a warp

// What no product of few columns has. NaN stays.
DEVICE float activated(float x, int activation) {
    if (activation == GELU) return product(product(0.5f, x), sum(1.0f, erff(product(x, 0.70710678f))));
    return x < 0.0f ? 0.0f : product(x, x);
}

DEVICE Quad quad(const float* row, int i, int n, int whole) { return whole ? quad_at<1>(row, i, n) : quad_at<0>(row, i, n); }

// A warp makes 128 results of one column: four blocks of the image.
extern "C" __global__ void __launch_bounds__(32 * WARPS) glu_act(const GluActParams p) {
    const int first = ROWS * (blockIdx.x * WARPS + warp()), i = first + 4 * lane(), column = blockIdx.y;
    if (first >= p.rows || !live(p.seq, column)) return;
    const int whole = (p.rows | p.stride | p.up_stride | p.y_stride) % 4 == 0;
    Quad v = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (i < p.rows) {
        const Quad gate = quad(p.gate + (size_t)column * p.stride, i, p.rows, whole);
        if (p.up) {
            const Quad up = quad(p.up + (size_t)column * p.up_stride, i, p.rows, whole);
            for (int j = 0; j < 4; j++) {
                if (i + j >= p.rows) continue;
                v.v[j] = p.activation == GELU ? product(activated(gate.v[j], GELU), up.v[j]) : gated(gate.v[j], up.v[j], p.activation);
            }
        } else {
            for (int j = 0; j < 4; j++) v.v[j] = activated(gate.v[j], p.activation);
        }
    }
    if (p.y) {
        float* y = p.y + (size_t)column * p.y_stride;
        if (whole) {
            store_quad<1>(y, i, p.rows, v);
        } else {
            store_quad<0>(y, i, p.rows, v);
        }
    }
    if (p.out.q) quantize_quads(p.out, (size_t)column * p.rows + i, v.v, i < p.rows);
}
