// Quantized weights: int8 mma over a block of 32, then the block's scales in f32.
//
//   acc += (Σ q·a) · d_a · d_w − m_w · s_a      with s_a = d_a · Σ a of the block (QuantizedActivations.s, per half)
#pragma once
#include "gemm.cuh"

// Sums of products start here instead of at 0: as bits of an f32 this is 1.5 · 2^23, where one step is 1, so that a sum within
// ± 2^22 becomes a float by one subtraction. SM 7.5 and 8.0 convert integers at a quarter of that rate.
constexpr int EXACT = 0x4b400000;
DEVICE float to_float(int sum) { return __int_as_float(sum) - 12582912.0f; }

template <class F>
struct Int8 {
    using Format = F;

    struct Rows {
        typename F::Octet octet[2];
    };

    struct Columns {
        unsigned q[2];  // the octet of column g
        float d[2];     // of the columns 2t and 2t + 1, where this lane's accumulators are
        float s[2][F::SCALES];
    };

    struct Tile {
        static constexpr int BLOCKS = 4;
        unsigned q[WIDE_COLUMNS][8 * BLOCKS + 8];  // padded: 4 columns × 4 octets lie in 32 different banks
        float d[BLOCKS][WIDE_COLUMNS + 8];
        float s[F::SCALES][BLOCKS][WIDE_COLUMNS + 8];
    };

    DEVICE Rows load(const unsigned char* const w[2], int block, int t) {
        return {{F::octet(w[0], block, t), F::octet(w[1], block, t)}};
    }

    DEVICE void fill(Tile& tile, const MatmulParams& p, int first_column, int first_block) {
        const int blocks = p.k / 32;
        for (int i = threadIdx.x; i < WIDE_COLUMNS * 2 * Tile::BLOCKS; i += 32 * WIDE_WARPS) {
            const int c = i / (2 * Tile::BLOCKS), part = i % (2 * Tile::BLOCKS);  // 16 bytes each
            const int valid = first_column + c < p.columns && first_block + part / 2 < blocks;
            const signed char* q = p.image.q + (size_t)(first_column + c) * p.k + first_block * 32 + part * 16;
            cp_async16(&tile.q[c][4 * part], valid ? q : p.image.q, valid);
        }
        for (int i = threadIdx.x; i < WIDE_COLUMNS * Tile::BLOCKS; i += 32 * WIDE_WARPS) {
            const int c = i / Tile::BLOCKS, b = i % Tile::BLOCKS;
            const int valid = first_column + c < p.columns && first_block + b < blocks;
            const size_t at = (size_t)(first_column + c) * blocks + first_block + b;
            tile.d[b][c] = valid ? p.image.d[at] : 0;
            if (F::MIN) {
                for (int h = 0; h < F::SCALES; h++) {
                    tile.s[h][b][c] = valid ? minimum_factor(p.image, at, h) : 0;
                }
            }
        }
    }

    DEVICE Columns get(const Tile& tile, int n, int b) {
        const int t = lane() % 4;
        const uint2 q = *(const uint2*)&tile.q[8 * n + lane() / 4][8 * b + 2 * t];
        const float2 d = *(const float2*)&tile.d[b][8 * n + 2 * t];
        Columns columns = {{q.x, q.y}, {d.x, d.y}, {}};
        for (int h = 0; F::MIN && h < F::SCALES; h++) {
            const float2 s = *(const float2*)&tile.s[h][b][8 * n + 2 * t];
            columns.s[0][h] = s.x;
            columns.s[1][h] = s.y;
        }
        return columns;
    }

    // Columns past the end are never stored, and in mma a column only meets its own results: they read the last one.
    DEVICE Columns global(const MatmulParams& p, int first_column, int block) {
        const int t = lane() % 4, last = p.columns - 1;
        const int g = min(first_column + lane() / 4, last);
        const uint2 q = *(const uint2*)(p.image.q + (size_t)g * p.k + block * 32 + 8 * t);
        Columns columns = {{q.x, q.y}, {}, {}};
        for (int j = 0; j < 2; j++) {
            const size_t at = (size_t)min(first_column + 2 * t + j, last) * (p.k / 32) + block;
            columns.d[j] = p.image.d[at];
            if (F::MIN) {
                for (int h = 0; h < F::SCALES; h++) {
                    columns.s[j][h] = minimum_factor(p.image, at, h);
                }
            }
        }
        return columns;
    }

    DEVICE void multiply(float acc[4], const Rows& rows, const Columns& columns) {
        const typename F::Octet* w = rows.octet;
        if (F::SCALES == 1) {
            int c[4] = {EXACT, EXACT, EXACT, EXACT};
            const unsigned a[4] = {(unsigned)w[0].q0, (unsigned)w[1].q0, (unsigned)w[0].q1, (unsigned)w[1].q1};
            mma_s8_k32(c, a, columns.q);
            for (int i = 0; i < 4; i++) {
                acc[i] += to_float(c[i]) * columns.d[i % 2] * w[i / 2].d0;
            }
        } else {
            int c0[4] = {EXACT, EXACT, EXACT, EXACT}, c1[4] = {EXACT, EXACT, EXACT, EXACT};
            const unsigned a0[2] = {(unsigned)w[0].q0, (unsigned)w[1].q0}, a1[2] = {(unsigned)w[0].q1, (unsigned)w[1].q1};
            mma_s8_k16(c0, a0, columns.q[0]);
            mma_s8_k16(c1, a1, columns.q[1]);
            for (int i = 0; i < 4; i++) {
                float sum = product(to_float(c0[i]), w[i / 2].d0);  // a fixed rounding: which product joins the FMA is not the compiler's choice
                sum += to_float(c1[i]) * w[i / 2].d1;
                acc[i] += sum * columns.d[i % 2];
            }
        }
        for (int i = 0; F::MIN && i < 4; i++) {
            // Fused in so many words: PTX leaves a product that is subtracted to the assembler, kernel by kernel.
            const float* s = columns.s[i % 2];
            acc[i] = fmaf(-w[i / 2].m0, s[0], acc[i]);
            if (F::SCALES == 2) {
                acc[i] = fmaf(-w[i / 2].m1, s[F::SCALES - 1], acc[i]);
            }
        }
    }

private:
    // What the minimum of a block, or of its half h, is multiplied with. `at`: the block's place in QuantizedActivations.d.
    DEVICE float minimum_factor(const QuantizedActivations& image, size_t at, int h) {
        const float2 halves = ((const float2*)image.s)[at];
        return F::SCALES == 1 ? halves.x + halves.y : h ? halves.y : halves.x;
    }
};
