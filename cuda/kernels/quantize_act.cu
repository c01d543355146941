// Quantizes f32 activations, where no kernel before could do it in its epilogue.
//
// Grid: columns × ceil(k / 128) blocks of 128 threads, a warp per block of 32 elements; no shared memory. Moves 4 bytes in and
// 1.375 out per element.
#include "ptx.cuh"
#include "image.cuh"

struct QuantizeActParams {
    const float* x;  // [columns][step], of which the first k
    QuantizedActivations image;
    int k;  // a multiple of 32
    int columns;
    int step;
    int pad;
};

extern "C" __global__ void __launch_bounds__(128) quantize_act(const QuantizeActParams p) {
    int block = blockIdx.y * 4 + warp(), column = blockIdx.x;
    if (32 * block >= p.k) return;
    quantize_block(p.image, column, p.k, block, p.x[(size_t)column * p.step + 32 * block + lane()]);
}
