// RMSNorm, and the sum with the residual stream before it.
//
// Grid: a block of 512 threads per row, 128 bytes of shared memory. Moves per element 4 bytes of x and 4 of `add` in (more
// passes find them in the caches), 4 of x out where something joins, and 1.375 (quantized) or 4 (f32) of the result.
#include "ptx.cuh"

#include "image.cuh"

enum { NORM_THREADS = 512, NORM_WARPS = NORM_THREADS / 32 };

struct rms_normParams {
    float* x;             // [rows][n] residual stream
    const float* add;     // [rows][n] what joins it, or null
    const float* post;    // [n] weights of an RMSNorm on `add`, or null: joins as it is
    const float* weight;  // [n]
    const int* seq;       // [rows]: rows with seq < 0 are skipped; null: none is
    const int* index;     // [rows] or null. Row r of y is then made from row index[r] of x and add (skipped where
                        // it is negative; seq is not asked), and x stays as it is
    float* y;             // [rows][n] the normed rows, or null
    QuantizedActivations image;          // the same for quantized matmuls (n a multiple of 32), or null
    int n;
    float eps;
};

// Sum over the block, the same bits in all threads. `part` is not used for anything else.
DEVICE float block_sum(float v, float* part) {
    v = warp_sum(v);
    if (lane() == 0) part[warp()] = v;
    block_sync();
    v = 0.0f;
    for (int i = 0; i < NORM_WARPS; i++) v += part[i];
    return v;
}

DEVICE float norm_weight(const float* w, int i) {
    return __uint_as_float(load_weights4(w + i));
}

extern "C" __global__ void __launch_bounds__(512) rms_norm(const rms_normParams p) {
    SHARED(float, part, [2][NORM_WARPS]);
    int row = blockIdx.x;
    int from = p.index ? p.index[row] : p.seq && p.seq[row] < 0 ? -1 : row;
    if (from < 0) return;
    float* x = p.x + (size_t)from * p.n;
    const float* add = p.add + (size_t)from * p.n;
    float add_factor = 1.0f;
    if (p.add && p.post) {
        float squares = 0.0f;
        for (int i = threadIdx.x; i < p.n; i += NORM_THREADS) squares += add[i] * add[i];
        add_factor = 1.0f / sqrtf(block_sum(squares, part[0]) / (float)p.n + p.eps);
    }
    // Each thread reads only what it alone writes: no barrier between the passes.
    auto joined = [&](int i) {
        float v = x[i];
        if (p.add) v += p.post ? add[i] * add_factor * norm_weight(p.post, i) : add[i];
        return v;
    };
    float squares = 0.0f;
    for (int i = threadIdx.x; i < p.n; i += NORM_THREADS) {
        float v = joined(i);
        squares += v * v;
    }
    float factor = 1.0f / sqrtf(block_sum(squares, part[1]) / (float)p.n + p.eps);
    for (int start = 32 * warp(); start < p.n; start += NORM_THREADS) {
        int i = start + lane();
        float normed = 0.0f;
        if (i < p.n) {
            float v = joined(i);
            if (p.add && !p.index) x[i] = v;
            normed = v * factor * norm_weight(p.weight, i);
            if (p.y) p.y[(size_t)row * p.n + i] = normed;
        }
        if (p.image.q) quantize_block(p.image, row, p.n, start / 32, normed);
    }
}
