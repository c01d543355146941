// The gated half of a feed-forward layer: activation(gate·x)·(up·x). A block owns 32 consecutive outputs, so that
// it can quantize them as one block of the image that the next matmul reads.
#include "ptx.cuh"
#include "activation.cuh"
#include "dot.cuh"

static constexpr int WARPS = 8, OUTPUTS = 32, PER_WARP = OUTPUTS / WARPS;

// Gate and up in one format: their rows share the activations.
template <class F>
struct Same {
    template <int C>
    DEVICE void dot(const GluParams& p, const Input& in, int row, int first, float (&y)[2][C]) {
        size_t at = row * row_bytes<F>(p.k);
        const unsigned char* rows[2] = {p.gate.w + at, p.up.w + at};
        if constexpr (F::DENSE) {
            dense_dot<F>(rows, in, first, y);
        } else {
            quantized_dot<F>(rows, in, first, y);
        }
    }
};

// Gate and up in any two formats, one after the other: the switch is uniform in a block.
struct Mixed {
    template <class F, int C>
    DEVICE void one(const unsigned char* w, const Input& in, int row, int first, float (&y)[1][C]) {
        const unsigned char* rows[1] = {w + row * row_bytes<F>(in.k)};
        if constexpr (F::DENSE) {
            dense_dot<F>(rows, in, first, y);
        } else {
            quantized_dot<F>(rows, in, first, y);
        }
    }
    template <int C>
    DEVICE void dot(const GluParams& p, const Input& in, int row, int first, float (&y)[2][C]) {
#pragma unroll 1
        for (int up = 0; up < 2; up++) {
            const unsigned char* w = up ? p.up.w : p.gate.w;
            float part[1][C];
            switch (up ? p.up.format : p.gate.format) {
#define CASE(number, name, F) \
    case number: one<F>(w, in, row, first, part); break;
                ALL_FORMATS(CASE)
#undef CASE
                default: return;
            }
            for (int c = 0; c < C; c++) {
                if (up) y[1][c] = part[0][c];
                else y[0][c] = part[0][c];
            }
        }
    }
};

template <class Rows, int C>
DEVICE void columns(const GluParams& p, int first, float (*value)[OUTPUTS]) {
    Input in = {p.image, p.x, p.k, p.columns};
    int row0 = blockIdx.x * OUTPUTS;
#pragma unroll 1
    for (int i = warp() * PER_WARP; i < (warp() + 1) * PER_WARP; i++) {
        float y[2][C] = {};
        if (row0 + i < p.gate.rows) Rows::template dot<C>(p, in, row0 + i, first, y);
        for (int c = 0; c < C; c++) {
            if (lane() == c) value[c][i] = activate(y[0][c], p.activation) * y[1][c];
        }
    }
    block_sync();
    int column = first + warp(), row = row0 + lane();
    if (warp() < C && column < p.columns && live(p.seq, column)) {
        float v = value[warp()][lane()];
        if (p.y && row < p.gate.rows) p.y[(size_t)column * p.y_stride + row] = v;
        if (p.out.q) quantize_block(p.out, column, p.gate.rows, blockIdx.x, v);
    }
}

template <class Rows>
DEVICE void glu(const GluParams& p) {
    SHARED(float, value, [4][OUTPUTS]);
    if (p.columns == 1) {
        columns<Rows, 1>(p, 0, value);
    } else {
        for (int first = 0; first < p.columns; first += 4) {
            if (first) block_sync();
            columns<Rows, 4>(p, first, value);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) glu_f32(const GluParams p) { glu<Same<F32>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_f16(const GluParams p) { glu<Same<F16>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_bf16(const GluParams p) { glu<Same<BF16>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q4_0(const GluParams p) { glu<Same<Q4_0>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q4_1(const GluParams p) { glu<Same<Q4_1>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q5_0(const GluParams p) { glu<Same<Q5_0>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q5_1(const GluParams p) { glu<Same<Q5_1>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q8_0(const GluParams p) { glu<Same<Q8_0>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q2_k(const GluParams p) { glu<Same<Q2_K>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q3_k(const GluParams p) { glu<Same<Q3_K>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q4_k(const GluParams p) { glu<Same<Q4_K>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q5_k(const GluParams p) { glu<Same<Q5_K>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_q6_k(const GluParams p) { glu<Same<Q6_K>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_iq4_nl(const GluParams p) { glu<Same<IQ4_NL>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_iq4_xs(const GluParams p) { glu<Same<IQ4_XS>>(p); }
extern "C" __global__ void __launch_bounds__(256) glu_mixed(const GluParams p) { glu<Mixed>(p); }
