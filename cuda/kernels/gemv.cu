// Dense weights times one vector, or few, or those that chose an expert: a block owns ROWS rows of one segment, a warp two of them.
//
// Grid: Σ over segments of ceil(rows / 8) × ceil(columns / 32) blocks of 128 threads, or of experts × their tiles of columns. No
// shared memory. Moves the weights once (again for every 4 columns beyond the first 4, mostly from the L2 cache), the columns
// through the caches at 4 bytes per element, and 4 bytes per result.
#include "ptx.cuh"
#include "dot.cuh"

static constexpr int WARPS = 4, PER_WARP = 2, ROWS = WARPS * PER_WARP;

// R rows from `row0`, C columns from `first`. LISTED: they may be those of an expert.
template <class F, int LISTED, int R, int C>
DEVICE void tile(const MatmulParams& p, const Segment& s, int row0, const ColumnTile& columns, int first) {
    const unsigned char* row[R];
    for (int r = 0; r < R; r++) row[r] = s.w + (columns.row(s) + min(row0 + r, s.rows - 1)) * row_bytes<F>(p.k);
    Input in = {p.x, p.k, LISTED ? p.x_step : p.k, columns};
    float y[R * C];
    dot<F, R, C>(row, in, C == 1 ? columns.one : first, y);
    // Lane r·C + c writes y[r·C + c]; there are two or four of them.
    float v = lane() & 1 ? y[1] : y[0];
    if constexpr (R * C == 4) v = lane() & 2 ? (lane() & 1 ? y[3] : y[2]) : v;
    const int r = row0 + lane() / C, column = first + lane() % C;
    if (lane() < R * C && r < s.rows && column < columns.end) {
        const int to = C == 1 ? first : columns.y_column(column);
        if (!live(p.seq, to)) return;
        if (s.bias) v += s.bias[columns.row(s) + r];
        s.y[(size_t)to * s.y_stride + r] = soft_cap(v, p.softcap);
    }
}

template <class F, int LISTED>
DEVICE void gemv(const MatmulParams& p, const Segment& s, int block) {
    // A block's rows lie one after the other; which expert's they are is known behind the wait.
    if (HAS_DEPENDENT_LAUNCH && !(LISTED && p.experts)) {
        const int bytes = (int)(min(ROWS, s.rows - block * ROWS) * row_bytes<F>(p.k));
        prefetch(s.w + block * ROWS * row_bytes<F>(p.k), min(bytes, p.ahead));
    }
    depend_wait();
    const ColumnTile columns = LISTED ? column_tile(p, p.columns == 1 ? 1 : 4) : all_columns(p.columns);
    int row0 = block * ROWS + warp() * PER_WARP;
    if (row0 >= s.rows || (LISTED && columns.first >= columns.end)) return;
    if (p.columns == 1) {
        tile<F, LISTED, PER_WARP, 1>(p, s, row0, columns, columns.first);
        return;
    }
    const int begin = LISTED ? columns.first : 4 * blockIdx.y, step = LISTED && p.experts ? 4 : 4 * gridDim.y;
#pragma unroll 1
    for (int row = row0; row < row0 + PER_WARP; row++) {
#pragma unroll 1
        for (int first = begin; first < columns.end; first += step) tile<F, LISTED, 1, 4>(p, s, row, columns, first);
    }
}

// All segments in one format.
template <class F>
DEVICE void gemv(const MatmulParams& p) {
    SegmentTile at = segment_tile(p, 3);
    gemv<F, 0>(p, p.segment[at.segment], at.block);
}

#define GEMV(number, name, F) \
    extern "C" __global__ void __launch_bounds__(128, 4) gemv_##name(const MatmulParams p) { \
        depend_launch();                                                                       \
        gemv<F>(p);                                                                            \
    }
DENSE_FORMATS(GEMV)
#undef GEMV

// Segments in different formats, or experts: the switch is uniform in a block.
extern "C" __global__ void __launch_bounds__(128, 4) gemv_mixed(const MatmulParams p) {
    depend_launch();
    SegmentTile at = segment_tile(p, 3);
    const Segment& s = p.segment[at.segment];
    switch (s.format) {
#define CASE(number, name, F) \
    case number: gemv<F, 1>(p, s, at.block); break;
        DENSE_FORMATS(CASE)
#undef CASE
    }
}
