// Norms of rows, and the sum with the residual stream before them.
//
// Grid: a block per row, of a warp per 128 elements and at most 512 threads; 4 KB of shared memory (layer_norm 6). Moves per element
// 4 bytes of x and 4 of `add` in (of long rows more passes find them in the caches), 4 of x_out, and 1.375 (quantized) or 4 (f32) of
// the result.
#include "ptx.cuh"

#include "norm.cuh"

enum { NORM_THREADS = 512, NORM_MOST_CHUNKS = 512 };

template <int QUADS, int KIND>
DEVICE void norm(const NormParams& p, int from, float* part) {
    const size_t row = (size_t)blockIdx.x * p.n;
    First<1> first = {uniform_warp()};
    ask_weights<QUADS, KIND>(first, p);
    ask_row<QUADS>(first, p, (size_t)from * p.n);
    norm_row<QUADS, KIND>(p, from, first, p.x_out, part, [&](int i, const Quad& normed) {
        if (p.y) store_quad<QUADS>(p.y + row, i, p.n, normed);
        if (QUADS && p.image.q) quantize_quads(p.image, row + i, normed.v, i < p.n);
    });
}

#define NORM(NAME, KIND)                                                                                      \
    extern "C" __global__ void __launch_bounds__(512) NAME(const NormParams p) {                             \
        SHARED(float, part, [NORM_SUMS<KIND> * NORM_MOST_CHUNKS]);                                            \
        depend_launch();                                                                                      \
        depend_wait();                                                                                        \
        const int row = blockIdx.x, from = p.index ? p.index[row] : p.seq && p.seq[row] < 0 ? -1 : row;       \
        if (from < 0) return;                                                                                 \
        if (p.n % 4 == 0) {                                                                                   \
            norm<1, KIND>(p, from, part);                                                                     \
        } else {                                                                                              \
            norm<0, KIND>(p, from, part);                                                                     \
        }                                                                                                     \
    }
NORM(rms_norm, NORM_RMS)
NORM(layer_norm, NORM_LAYER)
NORM(residual_add, NORM_NONE)
#undef NORM
