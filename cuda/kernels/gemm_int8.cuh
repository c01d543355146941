// Quantized weights times many columns: 64 rows × 64 columns per thread block. A warp has a row tile, whose records go from global
// memory into the A registers of mma with no stop in shared memory; the activations are staged there, 128 columns of k at a time.
#pragma once
#include "chunk.cuh"
#include "gemm.cuh"

template <class F>
struct Int8Tile {
    static constexpr int BLOCKS = 4;
    unsigned q[WIDE_COLUMNS][8 * BLOCKS + 8];  // padded: 4 columns × 4 octets lie in 32 different banks
    float d[BLOCKS][WIDE_COLUMNS + 8];
    float s[F::SCALES][BLOCKS][WIDE_COLUMNS + 8];

    // Past the last column, and past k, everything is zero.
    DEVICE void fill(Int8Tile& tile, const MatmulParams& p, const WidePlaces& places, int first_block) {
        const int blocks = p.k / 32;
        for (int i = threadIdx.x; i < WIDE_COLUMNS * 2 * BLOCKS; i += 32 * WIDE_WARPS) {
            const int c = i / (2 * BLOCKS), part = i % (2 * BLOCKS);  // 16 bytes each
            const int column = places.x[c], valid = column >= 0 && first_block + part / 2 < blocks;
            const signed char* q = p.image.q + (size_t)column * p.k + first_block * 32 + part * 16;
            cp_async16(&tile.q[c][4 * part], valid ? q : p.image.q, valid);
        }
        for (int i = threadIdx.x; i < WIDE_COLUMNS * BLOCKS; i += 32 * WIDE_WARPS) {
            const int c = i / BLOCKS, b = i % BLOCKS;
            const int column = places.x[c], valid = column >= 0 && first_block + b < blocks;
            const size_t at = (size_t)column * blocks + first_block + b;
            tile.d[b][c] = valid ? p.image.d[at] : 0;
            if (F::MIN) {
                const float2 halves = valid ? ((const float2*)p.image.s)[at] : float2{0, 0};
                tile.s[0][b][c] = F::SCALES == 1 ? sum(halves.x, halves.y) : halves.x;
                if (F::SCALES == 2) tile.s[F::SCALES - 1][b][c] = halves.y;
            }
        }
    }

    // As chunk() reads them.
    __device__ __forceinline__ uint2 octet(int n, int j) const { return *(const uint2*)&q[8 * n + lane() / 4][8 * j + 2 * (lane() % 4)]; }
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
    // Chunk c of the record that is held: a constant, for what is held lies in registers.
    auto multiply = [&](int stage, int c) {
        cp_async_wait<0>();
        block_sync();  // this stage's tile is complete, and nobody reads the other one any more
        if (stage + 1 < stages) Tile::fill(tile[(stage + 1) % 2], p, *places, (stage + 1) * Tile::BLOCKS);
        cp_async_commit();
        float acc[TILES][4];
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
    for (int n = 0; n < TILES; n++) {
        for (int i = 0; i < 4; i++) total[n][i] = scaled<F>(total[n][i]);
    }
    store_wide(p, segment, segment.bias ? segment.bias + expert_row : nullptr, 16 * row_tile, *places, total);
}
