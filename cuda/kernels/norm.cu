// RMSNorm, and the sum with the residual stream before it.
//
// Grid: a block of 512 threads per row, 4 KB of shared memory. Moves per element 4 bytes of x and 4 of `add` in (of long rows more
// passes find them in the caches), 4 of x_out, and 1.375 (quantized) or 4 (f32) of the result.
#include "ptx.cuh"

#include "norm.cuh"

enum { NORM_THREADS = 512, NORM_MOST_CHUNKS = 512 };

template <int QUADS>
DEVICE void norm(const rms_normParams& p, int from, float* part) {
    const size_t row = (size_t)blockIdx.x * p.n;
    norm_row<QUADS>(p, from, p.x_out, part, [&](int i, const Quad& normed) {
        if (p.y) store_quad<QUADS>(p.y + row, i, p.n, normed);
        if (QUADS && p.image.q) quantize_quads(p.image, row + i, normed.v, i < p.n);
    });
}

extern "C" __global__ void __launch_bounds__(512) rms_norm(const rms_normParams p) {
    SHARED(float, part, [2 * NORM_MOST_CHUNKS]);
    const int row = blockIdx.x, from = p.index ? p.index[row] : p.seq && p.seq[row] < 0 ? -1 : row;
    if (from < 0) return;
    if (p.n % 4 == 0) {
        norm<1>(p, from, part);
    } else {
        norm<0>(p, from, part);
    }
}
