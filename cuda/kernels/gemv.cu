// Matrix times one vector, or few: a block owns ROWS rows of one segment, a warp two of them. The grid depends
// on the rows alone.
#include "ptx.cuh"
#include "dot.cuh"

static constexpr int WARPS = 4, PER_WARP = 2, ROWS = WARPS * PER_WARP;

template <class F, int C>
DEVICE void columns(const MatmulParams& p, const Segment& s, int row0, int first) {
    const unsigned char* row[PER_WARP];
    for (int r = 0; r < PER_WARP; r++) row[r] = s.w + min(row0 + r, s.rows - 1) * row_bytes<F>(p.k);
    Input in = {p.image, p.x, p.k, p.columns};
    float y[PER_WARP][C];
    if constexpr (F::DENSE) {
        dense_dot<F>(row, in, first, y);
    } else {
        quantized_dot<F>(row, in, first, y);
    }
    for (int r = 0; r < PER_WARP; r++) {
        for (int c = 0; c < C; c++) {
            if (lane() == r * C + c && row0 + r < s.rows && first + c < p.columns && live(p.seq, first + c)) {
                float bias = s.bias ? s.bias[row0 + r] : 0.0f;
                s.y[(size_t)(first + c) * s.y_stride + row0 + r] = soft_cap(y[r][c] + bias, p.softcap);
            }
        }
    }
}

template <class F>
DEVICE void gemv(const MatmulParams& p, const Segment& s, int block) {
    int row0 = block * ROWS + warp() * PER_WARP;
    if (row0 >= s.rows) return;
    if (p.columns == 1) {
        columns<F, 1>(p, s, row0, 0);
    } else {
        for (int first = 0; first < p.columns; first += 4) columns<F, 4>(p, s, row0, first);
    }
}

// All segments in one format.
template <class F>
DEVICE void gemv(const MatmulParams& p) {
    Place at = place(p, ROWS);
    gemv<F>(p, p.segment[at.segment], at.block);
}

extern "C" __global__ void __launch_bounds__(128) gemv_f32(const MatmulParams p) { gemv<F32>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_f16(const MatmulParams p) { gemv<F16>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_bf16(const MatmulParams p) { gemv<BF16>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q4_0(const MatmulParams p) { gemv<Q4_0>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q4_1(const MatmulParams p) { gemv<Q4_1>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q5_0(const MatmulParams p) { gemv<Q5_0>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q5_1(const MatmulParams p) { gemv<Q5_1>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q8_0(const MatmulParams p) { gemv<Q8_0>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q2_k(const MatmulParams p) { gemv<Q2_K>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q3_k(const MatmulParams p) { gemv<Q3_K>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q4_k(const MatmulParams p) { gemv<Q4_K>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q5_k(const MatmulParams p) { gemv<Q5_K>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_q6_k(const MatmulParams p) { gemv<Q6_K>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_iq4_nl(const MatmulParams p) { gemv<IQ4_NL>(p); }
extern "C" __global__ void __launch_bounds__(128) gemv_iq4_xs(const MatmulParams p) { gemv<IQ4_XS>(p); }

// Segments in different formats: the switch is uniform in a block.
extern "C" __global__ void __launch_bounds__(128) gemv_mixed(const MatmulParams p) {
    Place at = place(p, ROWS);
    const Segment& s = p.segment[at.segment];
    switch (s.format) {
#define CASE(number, name, F) \
    case number: gemv<F>(p, s, at.block); break;
        ALL_FORMATS(CASE)
#undef CASE
    }
}
