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
    float d[BLOCKS][WIDE_COLUMNS + 8];
    float s[F::MIN ? F::SCALES : 1][F::MIN ? BLOCKS : 1][WIDE_COLUMNS + 8];

    // Blocks past the last of k are the last one again: their weights have no scales.
    DEVICE void fill(Int8Tile& tile, const MatmulParams& p, const WidePlaces& places, int first_block) {
        constexpr int THREADS = 32 * WIDE_WARPS, PARTS = 2 * BLOCKS;  // of 16 bytes
        const int i = threadIdx.x, last = p.k / 32 - 1;
        const int part = i % PARTS, half = min(first_block + part / 2, last) * 2 + part % 2;
        for (int n = 0; n < WIDE_COLUMNS * PARTS / THREADS; n++) {
            const int c = i / PARTS + n * THREADS / PARTS;
            cp_async16(&tile.q[c][4 * (part ^ 2 * (c % 4))], p.image.q + (size_t)(unsigned)(2 * places.x[c] + half) * 16, 1);
        }
        const int b = i % BLOCKS, block = min(first_block + b, last);
        for (int n = 0; n < WIDE_COLUMNS * BLOCKS / THREADS; n++) {
            const int c = i / BLOCKS + n * THREADS / BLOCKS;
            const unsigned at = places.x[c] + block;
            tile.d[b][c] = p.image.d[at];
            if constexpr (F::MIN) {
                const float2 halves = ((const float2*)p.image.s)[at];
                tile.s[0][b][c] = F::SCALES == 1 ? sum(halves.x, halves.y) : halves.x;
                if (F::SCALES == 2) tile.s[F::SCALES - 1][b][c] = halves.y;
            }
        }
    }

    // As chunk() reads them.
    __device__ __forceinline__ uint2 octet(int n, int j) const {
        const int g = lane() / 4;
        return *(const uint2*)&q[8 * n + g][8 * (j ^ g % 4) + 2 * (lane() % 4)];
    }
    __device__ __forceinline__ float2 scales(int n, int j) const { return *(const float2*)&d[j][8 * n + 2 * (lane() % 4)]; }
    __device__ __forceinline__ float2 sums(int n, int j, int half) const { return *(const float2*)&s[half][j][8 * n + 2 * (lane() % 4)]; }
};

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
        float acc[TILES][4];
        lend_grid<F>(w, lane(), grid_memory<F>());
        chunk<F, TILES, 0>(acc, w, c, tile[stage % 2]);
        for (int n = 0; n < TILES; n++) {
            for (int i = 0; i < 4; i++) total[n][i] += acc[n][i];
        }
    };
#pragma unroll 1
    for (int stage = 0; stage < stages; stage += CHUNKS) {
        multiply(stage, 0);
        if constexpr (CHUNKS == 2) multiply(stage + 1, 1);
        if (stage + CHUNKS < stages) w = F::load(next += F::RECORD, lane());
    }
    const float scale = scale_beside<F>(segment, columns);
    for (int n = 0; n < TILES; n++) {
        for (int i = 0; i < 4; i++) total[n][i] = with_scale<F>(scaled<F>(total[n][i]), scale);
    }
    store_wide(p, segment, segment.bias ? segment.bias + expert_row : nullptr, 16 * row_tile, *places, total);
}

// Blocks on an SM: what is held of some records leaves registers for two.
template <class F>
constexpr int WIDE_BLOCKS = F::INTEGER && (F::SCALES == 2 || !F::MIN) ? 2 : 3;

#define GEMM_INT8(number, name, F) \
    extern "C" __global__ void __launch_bounds__(128, WIDE_BLOCKS<F>) gemm_##name(const MatmulParams p) { gemm_wide_int8<F>(p); }
