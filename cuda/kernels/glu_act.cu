// The gate of a feed-forward layer for many columns: activation(gate)·up of what products have written.
//
// Grid: ceil(rows / 256) × columns blocks of 256 threads, no shared memory. Moves 8 bytes in and 1.375 (quantized) or 4 (f32)
// out per result.
#include "ptx.cuh"
#include "activation.cuh"

struct GluActParams {
    const float* gate;  // [columns][stride]
    const float* up;    // [columns][up_stride]
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

constexpr int WARPS = 8;

// A warp makes 32 results of one column: one block of the image.
extern "C" __global__ void __launch_bounds__(32 * WARPS) glu_act(const GluActParams p) {
    const int block = blockIdx.x * WARPS + warp(), row = 32 * block + lane(), column = blockIdx.y;
    if (32 * block >= p.rows || !live(p.seq, column)) return;
    const float* up = p.up + (size_t)column * p.up_stride;
    const float v = row < p.rows ? gated(p.gate[(size_t)column * p.stride + row], up[row], p.activation) : 0;
    if (p.y && row < p.rows) p.y[(size_t)column * p.y_stride + row] = v;
    if (p.out.q) quantize_block(p.out, column, p.rows, block, v);
}
