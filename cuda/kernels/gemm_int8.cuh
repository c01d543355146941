// Quantized weights times many columns: 64 rows × 64 columns per thread block. A warp has a row tile, whose records go from global
// memory into the A registers of mma with no stop in shared memory; the activations are staged there, 128 columns of k at a time.
// Gated: 32 rows of the gate and as many of what is gated, which make a block of the next image of 64 columns.
#pragma once
#include "activation.cuh"
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

    // Blocks past the last of k are others: their weights have no scales. Where columns lie is read first: what goes to the tile
    // would have it wait for what comes from memory, one line after the other.
    DEVICE void fill(Int8Tile& tile, const MatmulParams& p, const WidePlaces& places, int first_block) {
        constexpr int PARTS = 2 * BLOCKS, COPIES = WIDE_COLUMNS * PARTS / (32 * WIDE_WARPS), SCALES = COPIES / 2;  // parts of 16 bytes
        auto inside = [&](int i, int elements) { return F::BLOCK >= CHUNK || i * elements < p.k ? i : 0; };
        // A thread's columns are a multiple of 16 apart: where they go is one address for all, as registers are few.
        const int i = threadIdx.x, part = i % PARTS, b = i % BLOCKS, column = i / BLOCKS;
        const int half = inside(2 * first_block + part, 16), block = inside(first_block + b, 32);
        unsigned from[COPIES], at[SCALES];
        for (int c = 0; c < COPIES; c++) from[c] = 2 * places.x[i / PARTS + WIDE_COLUMNS / COPIES * c] + half;
        for (int c = 0; c < SCALES; c++) at[c] = places.x[column + WIDE_COLUMNS / SCALES * c] + block;
        unsigned* const q = tile.q[0] + 4 * (i ^ 2 * (i / PARTS % 4));
        for (int c = 0; c < COPIES; c++) cp_async16(q + 8 * BLOCKS * WIDE_COLUMNS / COPIES * c, p.image.q + (size_t)from[c] * 16, 1);
        float* const d = &tile.d[b][place(column)];
        for (int c = 0; c < SCALES; c++) {
            const int to = WIDE_COLUMNS / SCALES * c;
            d[to] = p.image.d[at[c]];
            if constexpr (F::MIN) {
                const float2 halves = ((const float2*)p.image.s)[at[c]];
                if constexpr (MMA_MINIMUMS<F>) {
                    tile.split[column + to][b] = split_bf16(sum(halves.x, halves.y));
                } else {
                    tile.s[0][b][place(column) + to] = F::SCALES == 1 ? sum(halves.x, halves.y) : halves.x;
                    if (F::SCALES == 2) tile.s[F::SCALES - 1][b][place(column) + to] = halves.y;
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

constexpr int GATED_STRIDE = 36;  // from column to column of 32 rows: stores of a warp meet no bank twice

// activation(gate) · up of what the warps of a block have, two of each; `memory` has room for all of it.
DEVICE void store_gated(const MatmulParams& p, const WidePlaces& places, const float (&total)[WIDE_COLUMNS / 8][4], float* memory) {
    const int w = uniform_warp();
    constexpr int COLUMNS = WIDE_COLUMNS / WIDE_WARPS;  // that a warp gates
    const Segment &gate = p.segment[0], &up = p.segment[1];
    float* const mine = memory + (w / 2 * WIDE_COLUMNS + 2 * (lane() % 4)) * GATED_STRIDE + w % 2 * 16 + lane() / 4;
    block_sync();  // nobody reads the tiles any more
    for (int n = 0; n < WIDE_COLUMNS / 8; n++) {
        for (int i = 0; i < 4; i++) mine[(8 * n + i % 2) * GATED_STRIDE + i / 2 * 8] = total[n][i];
    }
    block_sync();
    const int row = 32 * places.block + lane();
    const float *gate_bias = gate.bias ? gate.bias + places.expert * gate.expert_rows : nullptr;
    const float *up_bias = up.bias ? up.bias + places.expert * up.expert_rows : nullptr;
#pragma unroll 1
    for (int c = COLUMNS * w; c < COLUMNS * (w + 1); c++) {
        float *const a = memory + c * GATED_STRIDE + lane(), b = a[WIDE_COLUMNS * GATED_STRIDE];
        float v = 0.0f;
        if (row < gate.rows) {
            v = gated(gate_bias ? *a + gate_bias[row] : *a, up_bias ? b + up_bias[row] : b, p.activation);
            if (gate.y && places.y[c] >= 0) gate.y[(size_t)places.y[c] * gate.y_stride + row] = v;
        }
        *a = v;
    }
    if (!p.out.q) return;
    warp_sync();
#pragma unroll 1
    for (int i = 0; i < COLUMNS; i += 4) {
        // Eight lanes have a column, four rows each.
        const int c = COLUMNS * w + i + lane() / 8, first = 4 * (lane() % 8);
        float v[4];
        four(v, memory + c * GATED_STRIDE + first);
        quantize_quads(p.out, (size_t)places.y[c] * gate.rows + 32 * places.block + first, v, places.y[c] >= 0);
    }
}

template <class F>
DEVICE void gemm_wide_int8(const MatmulParams& p) {
    using Tile = Int8Tile<F>;
    constexpr int TILES = WIDE_COLUMNS / 8, CHUNKS = F::COLUMNS / CHUNK;
    SHARED(Tile, tile, [2]);
    SHARED(WidePlaces, places, [1]);

    const ColumnTile columns = column_tile(p, WIDE_COLUMNS);
    if (columns.first >= columns.end) return;
    places->find(p, columns);
    const SegmentTile here = p.gated ? SegmentTile{0, (int)blockIdx.x} : segment_tile(p, 6);
    if (threadIdx.x == 0) {
        places->segment = here.segment, places->block = here.block;
        places->expert = columns.expert, places->expert_row = columns.row(p.segment[here.segment]);
    }
    const Segment& segment = p.segment[p.gated ? warp() / 2 : here.segment];
    const int row_tile = p.gated ? 2 * here.block + warp() % 2 : here.block * WIDE_WARPS + warp();
    const int in_row = records<F>(p.k), stages = in_row * CHUNKS;
    const unsigned char* next = record<F>(segment.w, in_row, min(row_tile, (segment.rows + 15) / 16 - 1) + columns.row(segment) / 16, 0) + 16 * lane();

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
    static_assert(sizeof(tile) >= 2 * WIDE_COLUMNS * GATED_STRIDE * sizeof(float), "room for what is gated");
    const Segment& to = p.segment[p.gated ? uniform_warp() / 2 : places->segment];
    const float scale = scale_beside<F>(to, places->expert);
    for (int n = 0; n < TILES; n++) {
        for (int i = 0; i < 4; i++) total[n][i] = with_scale<F>(scaled<F>(total[n][i]), scale);
    }
    if (p.gated) return store_gated(p, *places, total, (float*)tile);
    store_wide(p, to, to.bias ? to.bias + places->expert_row : nullptr, 16 * (places->block * WIDE_WARPS + warp()), *places, total);
}

// Blocks on an SM: what is held of some records leaves registers for two.
template <class F>
constexpr int WIDE_BLOCKS = F::INTEGER && (F::SCALES == 2 || !F::MIN) ? 2 : 3;
template <>
constexpr int WIDE_BLOCKS<Q5_K> = 2;

#define GEMM_INT8(number, name, F) \
    extern "C" __global__ void __launch_bounds__(128, WIDE_BLOCKS<F>) gemm_##name(const MatmulParams p) { gemm_wide_int8<F>(p); }
