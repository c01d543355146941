// Matrix times several columns on tensor cores: y[column][row] = Σ_k w[row][k] · x[column][k] (+ bias[row]). What dense weights
// (gemm_float.cuh) and quantized ones (gemm_int8.cuh) share, and the kernels of the dense ones.
//
// A warp owns 16 rows of weights. They go from global memory into the A registers of mma with no stop in
// shared memory: in a block of 32 weights, lane (g = lane / 4, t = lane % 4) has octet t of the rows g and g + 8, and
// the very same octet of column g is what mma wants as B. Two geometries share that:
//
//   gemm_wide  64 rows × 64 columns per thread block, activations staged in shared memory (prefill);
//   gemm_few   16 rows × up to 16 columns per thread block, its 8 warps take chunks of K in turn and read the
//              activations from the cache (2 to 16 sequences decoding: few columns, so rows × K must fill the GPU).
//
// Both add up in the same order: within a chunk of 256 weights from zero, block by block; then chunk by chunk. So a
// column's result has the same bits whatever stands beside it and however a prompt is cut into pieces.
//
// What a format brings (Float of gemm_float.cuh; for gemm_few Half of gemm_half.cuh):
//   Rows      what a lane holds of 16 rows × 32 weights;     load(row pointers, block, t)
//   Columns   what it holds of 8 columns × 32 activations;   global(p, first column, block, scale)
//   Tile      64 columns × BLOCKS blocks in shared memory;   fill(tile, p, first column, first block), get(tile, n, block)
//   multiply(acc, rows, columns): adds one block's product to the 16 × 8 accumulators.
//   Scale     of 8 columns in a chunk, for gemm_few;         scale(p, first column, first block, end), scaled(sum, scale, j)
#pragma once
#include "matmul.cuh"

constexpr int CHUNK_BLOCKS = 8;   // blocks of 32 whose products add up before they join the total
constexpr int WIDE_WARPS = 4;     // × 16 rows
constexpr int WIDE_COLUMNS = 64;
constexpr int FEW_WARPS = 8;
constexpr int FEW_COLUMNS = 16;

// The two rows of this lane, g and g + 8 from `first`. Rows past the end read the last row and are never stored.
template <class Format>
struct LaneRows {
    const unsigned char* w[2];
    __device__ LaneRows(const Segment& segment, int first, int k) {
        for (int i = 0; i < 2; i++) {
            const int row = min(first + 8 * i + lane() / 4, segment.rows - 1);
            w[i] = segment.w + (size_t)row * (k / Format::BLOCK) * Format::BYTES;
        }
    }
};

// Where a result goes, or null where this lane has none.
DEVICE float* target(const MatmulParams& p, const Segment& segment, int row, int column) {
    const int wanted = row < segment.rows && column < p.columns && live(p.seq, column);
    return wanted ? segment.y + (size_t)column * segment.y_stride + row : nullptr;
}

DEVICE float biased(const Segment& segment, int row, float value) {
    return segment.bias ? value + segment.bias[row] : value;
}

// Where the columns of a wide block lie: the first block of 32 of x, and the column of y, below 0 where it is not stored. And what is
// needed when all is multiplied, for which registers are too few.
struct WidePlaces {
    int x[WIDE_COLUMNS], y[WIDE_COLUMNS];
    int segment, block, expert, expert_row;
    // The block meets before they are read.
    __device__ __forceinline__ void find(const MatmulParams& p, const ColumnTile& columns) {
        const int i = threadIdx.x;
        if (i >= WIDE_COLUMNS) return;
        const int inside = columns.first + i < columns.end;
        x[i] = columns.x_column(inside ? columns.first + i : columns.first) * (p.k / 32);
        y[i] = inside ? columns.y_column(columns.first + i) : -1;
        if (inside && !live(p.seq, y[i])) y[i] = -1;
    }
};

// What a warp has of 16 rows × 64 columns; `bias` is that of row 0, or null.
DEVICE void store_wide(const MatmulParams& p, const Segment& segment, const float* bias, int first_row, const WidePlaces& places, const float (&total)[WIDE_COLUMNS / 8][4]) {
    constexpr int TILES = WIDE_COLUMNS / 8;
    const int t = lane() % 4;
    auto target = [&](int row, int column) {
        const int at = places.y[column];
        return row < segment.rows && at >= 0 ? segment.y + (size_t)at * segment.y_stride + row : nullptr;
    };
    for (int n = 0; n < TILES; n++) {
        for (int i = 0; i < 4; i++) {
            const int row = first_row + lane() / 4 + i / 2 * 8;
            if (float* y = target(row, 8 * n + 2 * t + i % 2)) *y = bias ? total[n][i] + bias[row] : total[n][i];
        }
    }
    if (p.softcap > 0) {  // rare, and long code: apart from the loop above, which is unrolled
#pragma unroll 1
        for (int i = 0; i < 4 * TILES; i++) {
            const int row = first_row + lane() / 4 + i % 4 / 2 * 8;
            if (float* y = target(row, i / 4 * 8 + 2 * t + i % 2)) *y = p.softcap * tanhf(*y / p.softcap);
        }
    }
}

template <class Family>
DEVICE void gemm_wide(const MatmulParams& p) {
    using Tile = typename Family::Tile;
    using Rows = typename Family::Rows;
    constexpr int TILES = WIDE_COLUMNS / 8;
    SHARED(Tile, tile, [2]);
    SHARED(WidePlaces, places, [1]);

    const SegmentTile here = segment_tile(p, 6);
    const Segment& segment = p.segment[here.segment];
    places->find(p, {(int)blockIdx.y * WIDE_COLUMNS, p.columns, 0, 0, nullptr, nullptr});
    const int first_row = 16 * (here.block * WIDE_WARPS + warp()), first_column = blockIdx.y * WIDE_COLUMNS;
    const LaneRows<typename Family::Format> mine(segment, first_row, p.k);
    const int t = lane() % 4, blocks = p.k / 32, stages = (blocks + Tile::BLOCKS - 1) / Tile::BLOCKS;

    float total[TILES][4] = {}, acc[TILES][4] = {};
    Family::fill(tile[0], p, first_column, 0);
    Rows w = Family::load(mine.w, 0, t);
    for (int stage = 0; stage < stages; stage++) {
        block_sync();  // this stage's tile is complete, and nobody reads the other one any more
        if (stage + 1 < stages) {
            Family::fill(tile[(stage + 1) % 2], p, first_column, (stage + 1) * Tile::BLOCKS);
        }
        const int begin = stage * Tile::BLOCKS, count = min(Tile::BLOCKS, blocks - begin);
        for (int b = 0; b < count; b++) {
            const Rows next = Family::load(mine.w, min(begin + b + 1, blocks - 1), t);  // arrives during the products below
            for (int n = 0; n < TILES; n++) {
                Family::multiply(acc[n], w, Family::get(tile[stage % 2], n, b));
            }
            w = next;
        }
        if ((begin + Tile::BLOCKS) % CHUNK_BLOCKS == 0 || stage + 1 == stages) {
            for (int n = 0; n < TILES; n++) {
                for (int i = 0; i < 4; i++) {
                    total[n][i] += acc[n][i];
                    acc[n][i] = 0;
                }
            }
        }
    }
    store_wide(p, segment, segment.bias, first_row, *places, total);
}

// TILES × 8 columns. Each round the warps sum one chunk each; then the sums are added in the order of the chunks.
template <class Family, int TILES>
DEVICE void gemm_few(const MatmulParams& p, float (*sums)[FEW_WARPS][FEW_COLUMNS * 16]) {
    const SegmentTile here = segment_tile(p, 4);
    const Segment& segment = p.segment[here.segment];
    const int first_row = 16 * here.block, first_column = blockIdx.y * FEW_COLUMNS;
    const LaneRows<typename Family::Format> mine(segment, first_row, p.k);
    const int t = lane() % 4, blocks = p.k / 32, chunks = (blocks + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS;

    float total = 0;
    for (int chunk = 0, round = 0; chunk < chunks; chunk += FEW_WARPS, round ^= 1) {
        float acc[TILES][4] = {};
        const int begin = (chunk + warp()) * CHUNK_BLOCKS, end = min(begin + CHUNK_BLOCKS, blocks);
        typename Family::Scale scale[TILES];
        for (int n = 0; n < TILES; n++) {
            scale[n] = Family::scale(p, first_column + 8 * n, begin, end);
        }
        for (int b = begin; b < end; b++) {
            const typename Family::Rows w = Family::load(mine.w, b, t);
            for (int n = 0; n < TILES; n++) {
                Family::multiply(acc[n], w, Family::global(p, first_column + 8 * n, b, scale[n]));
            }
        }
        for (int n = 0; n < TILES; n++) {
            for (int i = 0; i < 4; i++) {
                sums[round][warp()][(4 * n + i) * 32 + lane()] = Family::scaled(acc[n][i], scale[n], i % 2);
            }
        }
        block_sync();  // one per round: the next round writes the other half of `sums`
        if (threadIdx.x < TILES * 128) {
            for (int i = 0; i < FEW_WARPS; i++) {  // a warp with no chunk left has 0
                total += sums[round][i][threadIdx.x];
            }
        }
    }
    // This thread's element is accumulator i % 4 of column tile i / 4 of the lane with its number.
    const int i = threadIdx.x / 32, row = first_row + lane() / 4 + i % 4 / 2 * 8;
    float* y = target(p, segment, row, first_column + i / 4 * 8 + 2 * t + i % 2);
    if (y) {  // with one tile of columns the upper warps have none
        const float value = biased(segment, row, total);
        *y = p.softcap > 0 ? p.softcap * tanhf(value / p.softcap) : value;
    }
}

template <class Family>
DEVICE void gemm_few(const MatmulParams& p) {
    SHARED(float, sums, [2][FEW_WARPS][FEW_COLUMNS * 16]);
    if (p.columns - (int)blockIdx.y * FEW_COLUMNS > 8) {
        gemm_few<Family, 2>(p, sums);
    } else {
        gemm_few<Family, 1>(p, sums);
    }
}
