// Matrix times one vector, or few: a block owns ROWS rows of one segment, a warp two of them. The grid depends
// on the rows alone.
#include "ptx.cuh"
#include "dot.cuh"

static constexpr int WARPS = 4, PER_WARP = 2, ROWS = WARPS * PER_WARP;

// R rows from `row0`, C columns from `first`.
template <class F, int R, int C, int UNROLL>
DEVICE void tile(const MatmulParams& p, const Segment& s, int row0, int first) {
    const unsigned char* row[R];
    for (int r = 0; r < R; r++) row[r] = s.w + min(row0 + r, s.rows - 1) * row_bytes<F>(p.k);
    Input in = {p.image, p.x, p.k, p.columns};
    float y[R * C];
    dot<F, R, C, UNROLL>(row, in, first, y);
    // Lane r·C + c writes y[r·C + c]; there are two or four of them.
    float v = lane() & 1 ? y[1] : y[0];
    if constexpr (R * C == 4) v = lane() & 2 ? (lane() & 1 ? y[3] : y[2]) : v;
    int r = row0 + lane() / C, column = first + lane() % C;
    if (lane() < R * C && r < s.rows && column < p.columns && live(p.seq, column)) {
        if (s.bias) v += s.bias[r];
        s.y[(size_t)column * s.y_stride + r] = soft_cap(v, p.softcap);
    }
}

template <class F, int UNROLL>
DEVICE void gemv(const MatmulParams& p, const Segment& s, int block) {
    int row0 = block * ROWS + warp() * PER_WARP;
    if (row0 >= s.rows) return;
    if (p.columns == 1) {
        tile<F, PER_WARP, 1, UNROLL>(p, s, row0, 0);
        return;
    }
#pragma unroll 1
    for (int row = row0; row < min(row0 + PER_WARP, s.rows); row++) {
#pragma unroll 1
        for (int first = 0; first < p.columns; first += 4) tile<F, 1, 4, 1>(p, s, row, first);
    }
}

// All segments in one format.
template <class F>
DEVICE void gemv(const MatmulParams& p) {
    Place at = place(p, ROWS);
    gemv<F, 2>(p, p.segment[at.segment], at.block);
}

extern "C" __global__ void __launch_bounds__(128, 4) gemv_f32(const MatmulParams p) { gemv<F32>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_f16(const MatmulParams p) { gemv<F16>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_bf16(const MatmulParams p) { gemv<BF16>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q4_0(const MatmulParams p) { gemv<Q4_0>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q4_1(const MatmulParams p) { gemv<Q4_1>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q5_0(const MatmulParams p) { gemv<Q5_0>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q5_1(const MatmulParams p) { gemv<Q5_1>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q8_0(const MatmulParams p) { gemv<Q8_0>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q2_k(const MatmulParams p) { gemv<Q2_K>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q3_k(const MatmulParams p) { gemv<Q3_K>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q4_k(const MatmulParams p) { gemv<Q4_K>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q5_k(const MatmulParams p) { gemv<Q5_K>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_q6_k(const MatmulParams p) { gemv<Q6_K>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_iq4_nl(const MatmulParams p) { gemv<IQ4_NL>(p); }
extern "C" __global__ void __launch_bounds__(128, 4) gemv_iq4_xs(const MatmulParams p) { gemv<IQ4_XS>(p); }

// Segments in different formats: the switch is uniform in a block.
extern "C" __global__ void __launch_bounds__(128, 4) gemv_mixed(const MatmulParams p) {
    Place at = place(p, ROWS);
    const Segment& s = p.segment[at.segment];
    switch (s.format) {
#define CASE(number, name, F) \
    case number: gemv<F, 1>(p, s, at.block); break;
        ALL_FORMATS(CASE)
#undef CASE
    }
}
