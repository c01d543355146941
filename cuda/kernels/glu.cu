// The gated half of a feed-forward layer: activation(gate·x)·(up·x). A block owns 32 consecutive outputs, so that
// it can quantize them as one block of the image that the next matmul reads.
#include "ptx.cuh"
#include "activation.cuh"
#include "dot.cuh"

static constexpr int WARPS = 8, OUTPUTS = 32, PER_WARP = OUTPUTS / WARPS;

// What the warps of a block tell each other: gate·x and up·x of its outputs, for a few columns.
typedef float Products[2][4][OUTPUTS];

// The rows of one warp of one matrix: out[column][output] for C columns from `first`.
template <class F, int R, int C>
DEVICE void matrix(const Segment& s, const Input& in, int first, float (*out)[OUTPUTS]) {
#pragma unroll 1
    for (int i = warp() * PER_WARP; i < (warp() + 1) * PER_WARP; i += R) {
        const unsigned char* row[R];
        for (int r = 0; r < R; r++) row[r] = s.w + min(blockIdx.x * OUTPUTS + i + r, s.rows - 1) * row_bytes<F>(in.k);
        float y[R * C];
        dot<F, R, C>(row, in, first, y);
        for (int j = 0; j < R * C; j++) {
            if (lane() == 0) out[j % C][i + j / C] = y[j];
        }
    }
}

// Gate and up in one format: for one column their rows share the activations.
template <class F>
struct Same {
    static constexpr int COLUMNS = 4;  // at once, where there are several
    template <int C>
    static __device__ __forceinline__ void products(const GluParams& p, const Input& in, int first, Products& out) {
        if constexpr (C == 1) {
#pragma unroll 1
            for (int i = warp() * PER_WARP; i < (warp() + 1) * PER_WARP; i++) {
                size_t at = min(blockIdx.x * OUTPUTS + i, p.gate.rows - 1) * row_bytes<F>(p.k);
                const unsigned char* row[2] = {p.gate.w + at, p.up.w + at};
                float y[2];
                dot<F, 2, 1>(row, in, first, y);
                if (lane() < 2) out[lane()][0][i] = lane() & 1 ? y[1] : y[0];
            }
        } else {
#pragma unroll 1
            for (int up = 0; up < 2; up++) matrix<F, 1, C>(up ? p.up : p.gate, in, first, out[up]);
        }
    }
};

// Gate and up in any two formats, one after the other: the switch is uniform in a block.
struct Mixed {
    static constexpr int COLUMNS = 1;
    template <int C>
    static __device__ __forceinline__ void products(const GluParams& p, const Input& in, int first, Products& out) {
#pragma unroll 1
        for (int up = 0; up < 2; up++) {
            const Segment& s = up ? p.up : p.gate;
            switch (s.format) {
#define CASE(number, name, F) \
    case number: matrix<F, 1, C>(s, in, first, out[up]); break;
                ALL_FORMATS(CASE)
#undef CASE
            }
        }
    }
};

template <class Rows, int C>
DEVICE void columns(const GluParams& p, int first, Products& product) {
    Input in = {p.image, p.x, p.k, p.columns};
    Rows::template products<C>(p, in, first, product);
    block_sync();
    // Warp c finishes column c.
    int column = first + warp(), row = blockIdx.x * OUTPUTS + lane();
    if (warp() < C && column < p.columns && live(p.seq, column)) {
        float v = row < p.gate.rows ? activate(product[0][warp()][lane()], p.activation) * product[1][warp()][lane()] : 0.0f;
        if (p.y && row < p.gate.rows) p.y[(size_t)column * p.y_stride + row] = v;
        if (p.out.q) quantize_block(p.out, column, p.gate.rows, blockIdx.x, v);
    }
}

template <class Rows>
DEVICE void glu(const GluParams& p) {
    SHARED(float, product, [2][4][OUTPUTS]);
    if (p.columns == 1) {
        columns<Rows, 1>(p, 0, product);
        return;
    }
#pragma unroll 1
    for (int first = 0; first < p.columns; first += Rows::COLUMNS) {
        if (first) block_sync();
        columns<Rows, Rows::COLUMNS>(p, first, product);
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) glu_f32(const GluParams p) { glu<Same<F32>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_f16(const GluParams p) { glu<Same<F16>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_bf16(const GluParams p) { glu<Same<BF16>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q4_0(const GluParams p) { glu<Same<Q4_0>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q4_1(const GluParams p) { glu<Same<Q4_1>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q5_0(const GluParams p) { glu<Same<Q5_0>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q5_1(const GluParams p) { glu<Same<Q5_1>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q8_0(const GluParams p) { glu<Same<Q8_0>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q2_k(const GluParams p) { glu<Same<Q2_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q3_k(const GluParams p) { glu<Same<Q3_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q4_k(const GluParams p) { glu<Same<Q4_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q5_k(const GluParams p) { glu<Same<Q5_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_q6_k(const GluParams p) { glu<Same<Q6_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_iq4_nl(const GluParams p) { glu<Same<IQ4_NL>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_iq4_xs(const GluParams p) { glu<Same<IQ4_XS>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) glu_mixed(const GluParams p) { glu<Mixed>(p); }
