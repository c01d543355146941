// Quantized weights: int8 mma over a block of 32, then the block's scales in f32.
//
//   acc += (Σ q·a) · d_a · d_w − m_w · s_a      with s_a = d_a · Σ a of the block (Image.s, per half)
#pragma once
#include "gemm.cuh"

template <class F>
struct Int8 {
    using Format = F;

    struct Rows {
        typename F::Octet octet[2];
    };

    struct Columns {
        unsigned q[2];  // the octet of column g
        float d[2];     // of the columns 2t and 2t + 1, where this lane's accumulators are
        float2 s[2];    // likewise: per half of the block
    };

    struct Tile {
        static constexpr int BLOCKS = 4;
        unsigned q[WIDE_COLUMNS][8 * BLOCKS + 8];  // padded: 4 columns × 4 octets lie in 32 different banks
        float d[BLOCKS][WIDE_COLUMNS + 8];
        float2 s[BLOCKS][WIDE_COLUMNS + 8];
    };

    static __device__ Rows load(const unsigned char* const w[2], int block, int t) {
        return {{F::octet(w[0], block, t), F::octet(w[1], block, t)}};
    }

    static __device__ void fill(Tile& tile, const MatmulParams& p, int first_column, int first_block) {
        const int blocks = p.k / 32;
        for (int i = threadIdx.x; i < WIDE_COLUMNS * 2 * Tile::BLOCKS; i += 32 * WIDE_WARPS) {
            const int c = i / (2 * Tile::BLOCKS), part = i % (2 * Tile::BLOCKS);  // 16 bytes each
            const int valid = first_column + c < p.columns && first_block + part / 2 < blocks;
            const signed char* q = p.image.q + (long long)(first_column + c) * p.k + first_block * 32 + part * 16;
            cp_async16(&tile.q[c][4 * part], valid ? q : p.image.q, valid);
        }
        for (int i = threadIdx.x; i < WIDE_COLUMNS * Tile::BLOCKS; i += 32 * WIDE_WARPS) {
            const int c = i / Tile::BLOCKS, b = i % Tile::BLOCKS;
            const int valid = first_column + c < p.columns && first_block + b < blocks;
            const long long at = (long long)(first_column + c) * blocks + first_block + b;
            tile.d[b][c] = valid ? p.image.d[at] : 0;
            if (F::MIN) {
                tile.s[b][c] = valid ? ((const float2*)p.image.s)[at] : make_float2(0, 0);
            }
        }
    }

    static __device__ Columns get(const Tile& tile, int n, int b) {
        const int t = lane() % 4;
        const uint2 q = *(const uint2*)&tile.q[8 * n + lane() / 4][8 * b + 2 * t];
        const float2 d = *(const float2*)&tile.d[b][8 * n + 2 * t];
        Columns columns = {{q.x, q.y}, {d.x, d.y}, {}};
        for (int j = 0; F::MIN && j < 2; j++) {
            columns.s[j] = tile.s[b][8 * n + 2 * t + j];
        }
        return columns;
    }

    // Columns past the end are never stored, and in mma a column only meets its own results: they read the last one.
    static __device__ Columns global(const MatmulParams& p, int first_column, int block) {
        const int t = lane() % 4, last = p.columns - 1;
        const int g = min(first_column + lane() / 4, last);
        const uint2 q = *(const uint2*)(p.image.q + (long long)g * p.k + block * 32 + 8 * t);
        Columns columns = {{q.x, q.y}, {}, {}};
        for (int j = 0; j < 2; j++) {
            const long long at = (long long)min(first_column + 2 * t + j, last) * (p.k / 32) + block;
            columns.d[j] = p.image.d[at];
            if (F::MIN) {
                columns.s[j] = ((const float2*)p.image.s)[at];
            }
        }
        return columns;
    }

    static __device__ void multiply(float acc[4], const Rows& rows, const Columns& columns) {
        const typename F::Octet* w = rows.octet;
        if (F::SCALES == 1) {
            int c[4] = {};
            const unsigned a[4] = {(unsigned)w[0].q0, (unsigned)w[1].q0, (unsigned)w[0].q1, (unsigned)w[1].q1};
            mma_s8_k32(c, a, columns.q);
            for (int i = 0; i < 4; i++) {
                acc[i] += c[i] * columns.d[i % 2] * w[i / 2].d0;
            }
        } else {
            int c0[4] = {}, c1[4] = {};
            const unsigned a0[2] = {(unsigned)w[0].q0, (unsigned)w[1].q0}, a1[2] = {(unsigned)w[0].q1, (unsigned)w[1].q1};
            mma_s8_k16(c0, a0, columns.q[0]);
            mma_s8_k16(c1, a1, columns.q[1]);
            for (int i = 0; i < 4; i++) {
                float sum = product(c0[i], w[i / 2].d0);  // a fixed rounding: which product joins the FMA is not the compiler's choice
                sum += c1[i] * w[i / 2].d1;
                acc[i] += sum * columns.d[i % 2];
            }
        }
        for (int i = 0; F::MIN && i < 4; i++) {
            const float2 s = columns.s[i % 2];
            if (F::SCALES == 1) {
                acc[i] -= w[i / 2].m0 * (s.x + s.y);
            } else {
                acc[i] -= w[i / 2].m0 * s.x;
                acc[i] -= w[i / 2].m1 * s.y;
            }
        }
    }
};
