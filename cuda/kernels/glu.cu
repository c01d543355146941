// The gated half of a feed-forward layer of dense weights: activation(gate·x)·(up·x). A block owns 32 consecutive outputs, so that
// it can quantize them as one block of what the next matmul multiplies; half of its warps take rows of gate, half
// rows of up.
//
// Grid: ceil(rows / 32) blocks of 256 threads, 1 KB of shared memory. Moves both matrices once (again for every 4 columns
// beyond the first 4; once per column where formats are mixed), the columns through the caches, and 1.375 bytes (quantized)
// or 4 (f32) per result.
#include "ptx.cuh"
#include "activation.cuh"
#include "dot.cuh"

static constexpr int WARPS = 8, OUTPUTS = 32, PER_WARP = 2 * OUTPUTS / WARPS;

// What the warps of a block tell each other: gate·x and up·x of its outputs, for a few columns.
typedef float Products[2][4][OUTPUTS];

// The rows of one warp: out[column][output] for C columns from `first`.
template <class F, int R, int C>
DEVICE void rows(const Segment& s, const Input& in, int first, float (*out)[OUTPUTS]) {
    int begin = warp() % (WARPS / 2) * PER_WARP;
#pragma unroll 1
    for (int i = begin; i < begin + PER_WARP; i += R) {
        const unsigned char* row[R];
        for (int r = 0; r < R; r++) row[r] = s.w + min((int)blockIdx.x * OUTPUTS + i + r, s.rows - 1) * row_bytes<F>(in.k);
        float y[R * C];
        dot<F, R, C>(row, in, first, y);
        for (int j = 0; j < R * C; j++) {
            if (lane() == 0) out[j % C][i + j / C] = y[j];
        }
    }
}

// Gate and up in one format.
template <class F>
struct Same {
    static constexpr int COLUMNS = 4;  // at once, where there are several
    template <int C>
    static __device__ __forceinline__ void run(const Segment& s, const Input& in, int first, float (*out)[OUTPUTS]) {
        rows<F, C == 1 ? 2 : 1, C>(s, in, first, out);
    }
};

// Gate and up in any two formats: the switch is uniform in a warp.
struct Mixed {
    static constexpr int COLUMNS = 1;
    template <int C>
    static __device__ __forceinline__ void run(const Segment& s, const Input& in, int first, float (*out)[OUTPUTS]) {
        switch (s.format) {
#define CASE(number, name, F) \
    case number: rows<F, 1, C>(s, in, first, out); break;
            DENSE_FORMATS(CASE)
#undef CASE
        }
    }
};

template <class Rows, int C>
DEVICE void columns(const GluParams& p, int first, Products& product) {
    Input in = {p.x, p.k, p.k, all_columns(p.columns)};
    int up = warp() >= WARPS / 2;
    Rows::template run<C>(up ? p.up : p.gate, in, first, product[up]);
    block_sync();
    // Warp c finishes column c.
    int column = first + warp(), row = blockIdx.x * OUTPUTS + lane();
    if (warp() < C && column < p.columns && live(p.seq, column)) {
        float v = 0.0f;
        if (row < p.gate.rows) {
            float gate = product[0][warp()][lane()], up = product[1][warp()][lane()];
            if (p.gate.bias) gate += p.gate.bias[row];
            if (p.up.bias) up += p.up.bias[row];
            v = gated(gate, up, p.activation);
            if (p.y) p.y[(size_t)column * p.y_stride + row] = v;
        }
        if (p.out.q) quantize_block(p.out, column, p.gate.rows, blockIdx.x, v);
    }
}

template <class Rows>
DEVICE void glu(const GluParams& p) {
    SHARED(float, product, [2][4][OUTPUTS]);
    depend_launch();
    depend_wait();
    if constexpr (Rows::COLUMNS != 1) {
        if (p.columns == 1) {
            columns<Rows, 1>(p, 0, product);
            return;
        }
    }
#pragma unroll 1
    for (int first = 0; first < p.columns; first += Rows::COLUMNS) {
        block_sync();  // products of the columns before are read
        columns<Rows, Rows::COLUMNS>(p, first, product);
    }
}

#define GLU(number, name, F) \
    extern "C" __global__ void __launch_bounds__(256, 2) glu_##name(const GluParams p) { glu<Same<F>>(p); }
DENSE_FORMATS(GLU)
#undef GLU
extern "C" __global__ void __launch_bounds__(256, 2) glu_mixed(const GluParams p) { glu<Mixed>(p); }
