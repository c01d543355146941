// Quantized weights times many columns: 64 rows × 64 columns per thread block. A warp has a row tile, whose records go from global
// memory into the A registers of mma with no stop in shared memory; the activations are staged there, 128 columns of k at a time.
#pragma once
#include "chunk.cuh"
#include "gemm.cuh"

template <class F>
struct Int8Tile {
    static constexpr int BLOCKS = 4;
    // Block j of column c lies where block j ^ c % 4 would: what a warp loads at once lies in different banks.
    unsigned q[WIDE_COLUMNS][8 * BLOCKS];
    // Of column c at place(c): what a lane loads at once are columns 2t and 2t + 1 of two tiles.
    float d[BLOCKS][WIDE_COLUMNS + 8];
    static constexpr int SUMS = F::MIN && !MMA_MINIMUMS<F>;
    float s[SUMS ? F::SCALES : 1][SUMS ? BLOCKS : 1][WIDE_COLUMNS + 8];
    uint2 split[MMA_MINIMUMS<F> ? WIDE_COLUMNS : 1][BLOCKS];

    DEVICE int place(int c) { return (c & ~15) | (c & 6) << 1 | (c & 8) >> 2 | (c & 1); }
    DEVICE float2 of_tile(const float* row, int n) {
        const float4 both = *(const float4*)&row[n / 2 * 16 + 4 * (lane() % 4)];
        return n % 2 ? float2{both.z, both.w} : float2{both.x, both.y};
    }

    // Blocks past the last of k are the last one again: their weights have no scales.
    DEVICE void fill(Int8Tile& tile, const MatmulParams& p, const WidePlaces& places, int first_block) {
        constexpr int THREADS = 32 * WIDE_WARPS, PARTS = 2 * BLOCKS;  // of 16 bytes
        // A thread's columns are a multiple of 16 apart: where they go is one address for all, as registers are few.
        auto inside = [&](int block) { return F::BLOCK < CHUNK ? min(block, p.k / 32 - 1) : block; };
        const int i = threadIdx.x, part = i % PARTS, half = inside(first_block + part / 2) * 2 + part % 2;
        const int* const x = places.x + i / PARTS;
        unsigned* const q = &tile.q[i / PARTS][4 * (part ^ 2 * (i / PARTS % 4))];
        for (int c = 0; c < WIDE_COLUMNS; c += THREADS / PARTS) {
            cp_async16(q + 8 * BLOCKS * c, p.image.q + (size_t)(unsigned)(2 * x[c] + half) * 16, 1);
        }
        const int b = i % BLOCKS, column = i / BLOCKS, block = inside(first_block + b);
        float* const d = &tile.d[b][place(column)];
        for (int c = 0; c < WIDE_COLUMNS; c += THREADS / BLOCKS) {
            const unsigned at = places.x[column + c] + block;
            d[c] = p.image.d[at];
            if constexpr (F::MIN) {
                const float2 halves = ((const float2*)p.image.s)[at];
                if constexpr (MMA_MINIMUMS<F>) {
                    tile.split[column + c][b] = split_bf16(sum(halves.x, halves.y));
                } else {
                    tile.s[0][b][place(column) + c] = F::SCALES == 1 ? sum(halves.x, halves.y) : halves.x;
                    if (F::SCALES == 2) tile.s[F::SCALES - 1][b][place(column) + c] = halves.y;
                }
            }
        }
    }

    // As chunk() reads them.
    __device__ __forceinline__ uint2 octet(int n, int j) const {
        const int g = lane() / 4;
        return *(const uint2*)&q[8 * n + g][8 * (j ^ g % 4) + 2 * (lane() % 4)];
    }
    __device__ __forceinline__ float2 scales(int n, int j) const { return of_tile(d[j], n); }
    __device__ __forceinline__ float2 sums(int n, int j, int half) const { return of_tile(s[half][j], n); }
    __device__ __forceinline__ uint2 split_sum(int n) const { return split[8 * n + lane() / 4][lane() % 4]; }
};

// The tiles of columns from `first` on.
template <class Tile>
struct From {
    const Tile& tile;
    int first;
    __device__ __forceinline__ uint2 octet(int n, int j) const { return tile.octet(first + n, j); }
    __device__ __forceinline__ float2 scales(int n, int j) const { return tile.scales(first + n, j); }
    __device__ __forceinline__ float2 sums(int n, int j, int half) const { return tile.sums(first + n, j, half); }
    __device__ __forceinline__ uint2 split_sum(int n) const { return tile.split_sum(first + n); }
};

// Tiles of 8 columns that a chunk is multiplied with at once: sums of fewer need fewer registers. As many as fit beside what is
// held of weights, with none of it in local memory.
template <class F>
constexpr int AT_ONCE = F::SCALES == 2 ? (F::MIN ? 4 : 8) : F::INTEGER ? (MMA_MINIMUMS<F> && !FAST_INT_TO_FLOAT ? 4 : 8) : F::MIN ? 4 : 2;

template <class F>
DEVICE void gemm_wide_int8(const MatmulParams& p) {
    using Tile = Int8Tile<F>;
    constexpr int TILES = WIDE_COLUMNS / 8, CHUNKS = F::COLUMNS / CHUNK;
    SHARED(Tile, tile, [2]);
    SHARED(WidePlaces, places, [1]);

    const SegmentTile here = segment_tile(p, 6);
    const Segment& segment = p.segment[here.segment];
    const ColumnTile columns = column_tile(p, WIDE_COLUMNS);
    if (columns.first >= columns.end) return;
    places->find(p, columns);
    const int row_tile = here.block * WIDE_WARPS + warp(), expert_row = columns.row(segment);
    if (threadIdx.x == 0) {
        places->segment = here.segment, places->block = here.block;
        places->expert = columns.expert, places->expert_row = expert_row;
    }
    const int in_row = records<F>(p.k), stages = in_row * CHUNKS;
    const unsigned char* next = record<F>(segment.w, in_row, min(row_tile, (segment.rows + 15) / 16 - 1) + expert_row / 16, 0) + 16 * lane();

    float total[TILES][4] = {};
    block_sync();
    Tile::fill(tile[0], p, *places, 0);
    cp_async_commit();
    typename F::Held w = F::load(next, lane());
    if constexpr (F::GRID) bring_grid<F>(grid_memory<F>(), p.weight_grid);  // there when the first stage is complete
    // Chunk c of the record that is held: a constant, for what is held lies in registers.
    auto multiply = [&](int stage, int c) {
        cp_async_wait<0>();
        block_sync();  // this stage's tile is complete, and nobody reads the other one any more
        if (stage + 1 < stages) Tile::fill(tile[(stage + 1) % 2], p, *places, (stage + 1) * Tile::BLOCKS);
        cp_async_commit();
        lend_grid<F>(w, lane(), grid_memory<F>());
#pragma unroll
        for (int first = 0; first < TILES; first += AT_ONCE<F>) {
            float acc[AT_ONCE<F>][4];
            chunk<F, AT_ONCE<F>, 0>(acc, w, c, From<Tile>{tile[stage % 2], first});
            for (int n = 0; n < AT_ONCE<F>; n++) {
                for (int i = 0; i < 4; i++) total[first + n][i] += acc[n][i];
            }
        }
    };
#pragma unroll 1
    for (int stage = 0; stage < stages; stage += CHUNKS) {
        multiply(stage, 0);
        if constexpr (CHUNKS == 2) multiply(stage + 1, 1);
        if (stage + CHUNKS < stages) w = F::load(next += F::RECORD, lane());
    }
    const Segment& to = p.segment[places->segment];
    const float scale = scale_beside<F>(to, places->expert);
    for (int n = 0; n < TILES; n++) {
        for (int i = 0; i < 4; i++) total[n][i] = with_scale<F>(scaled<F>(total[n][i]), scale);
    }
    store_wide(p, to, to.bias ? to.bias + places->expert_row : nullptr, 16 * (places->block * WIDE_WARPS + warp()), *places, total);
}

// Blocks on an SM: what is held of some records leaves registers for two.
template <class F>
constexpr int WIDE_BLOCKS = F::INTEGER && (F::SCALES == 2 || !F::MIN) ? 2 : 3;
template <>
constexpr int WIDE_BLOCKS<Q5_K> = 2;

#define GEMM_INT8(number, name, F) \
    extern "C" __global__ void __launch_bounds__(128, WIDE_BLOCKS<F>) gemm_##name(const MatmulParams p) { gemm_wide_int8<F>(p); }
