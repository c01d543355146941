// Dense weights (f32; below SM 8.0 f16 and bf16, too): each number is split into terms that tensor cores take, and the terms' products are
// summed in f32, so that nothing of the f32 activations is lost that matters (1e-5 of the result).
//
//   SM 8.0+   bf16 terms: x = hi + lo (16 bits together); a bf16 weight is its own hi, the others are hi + lo.
//   SM 7.5    f16 terms, the only floats its mma knows. A power of two per row or column and block of 32 brings the
//             block's largest number to 2^14 ≤ |v| < 2^15, so that weights and activations of any size fit; then hi + lo has 22 bits.
//
// In a step of 16, lane t takes the elements 4t .. 4t+3 of both operands: a permutation of K that mma cannot see.
#pragma once
#include "gemm.cuh"

// A lane's 8 numbers of a block of 32: [0], [1] of the first half, [2], [3] of the second, two per word; value = (hi + lo) · d.
struct Terms {
    unsigned hi[4], lo[4];
    float d;
};

// Splits the numbers of one row or column, which the four lanes of equal g hold together. All lanes of the warp must call.
DEVICE Terms split(float4 a, float4 b) {
    Terms r;
#if HAS_BF16_MMA
    const float v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    r.d = 1;
#else
    float largest = fmaxf(fmaxf(fmaxf(fabsf(a.x), fabsf(a.y)), fmaxf(fabsf(a.z), fabsf(a.w))),
                          fmaxf(fmaxf(fabsf(b.x), fabsf(b.y)), fmaxf(fabsf(b.z), fabsf(b.w))));
    largest = group_max<4>(largest);
    // 2^(e - 127) ≤ largest < 2^(e - 126); e ≥ 15 keeps both powers of two normal.
    const int e = max(__float_as_int(largest) >> 23, 15);
    const float up = __int_as_float((268 - e) << 23);
    r.d = __int_as_float((e - 14) << 23);
    const float v[8] = {a.x * up, a.y * up, a.z * up, a.w * up, b.x * up, b.y * up, b.z * up, b.w * up};
#endif
    for (int i = 0; i < 4; i++) {
        const float x = v[2 * i], y = v[2 * i + 1];
#if HAS_BF16_MMA
        r.hi[i] = pack_bf16(x, y);
        r.lo[i] = pack_bf16(x - bf16_to_f32(r.hi[i]), y - bf16_to_f32(r.hi[i] >> 16));
#else
        r.hi[i] = pack_f16(x, y);
        r.lo[i] = pack_f16(x - f16_to_f32(r.hi[i]), y - f16_to_f32(r.hi[i] >> 16));
#endif
    }
    return r;
}

// BITS: of the significand, of a number of this format.
template <class F, int BITS>
struct Float {
    using Format = F;

#if HAS_BF16_MMA
    static constexpr int ONE_TERM = BITS <= 8;
#else
    static constexpr int ONE_TERM = BITS <= 11;
#endif

    struct Rows {
        Terms row[2];
    };

    struct Columns {
        unsigned hi[4], lo[4];  // of column g
        float d[2];             // of the columns 2t and 2t + 1
    };

    struct Tile {
        static constexpr int BLOCKS = 2;
        unsigned hi[WIDE_COLUMNS][16 * BLOCKS + 8], lo[WIDE_COLUMNS][16 * BLOCKS + 8];  // padded: 4 columns × 4 lanes, 32 banks
        float d[BLOCKS][WIDE_COLUMNS + 8];
    };

    DEVICE Rows load(const unsigned char* const w[2], int block, int t) {
        const int k = 32 * block + 4 * t;
        return {{split(F::four(w[0], k), F::four(w[0], k + 16)), split(F::four(w[1], k), F::four(w[1], k + 16))}};
    }

    DEVICE Terms column(const MatmulParams& p, int c, int block) {
        const float4* x = (const float4*)(p.x + (size_t)min(c, p.columns - 1) * p.k + 32 * block + 4 * (lane() % 4));
        return split(x[0], x[4]);
    }

    DEVICE void fill(Tile& tile, const MatmulParams& p, int first_column, int first_block) {
        const int g = lane() / 4, t = lane() % 4;
        for (int i = warp(); i < WIDE_COLUMNS / 8 * Tile::BLOCKS; i += WIDE_WARPS) {
            const int c = i / Tile::BLOCKS * 8 + g, b = i % Tile::BLOCKS;
            const Terms x = column(p, first_column + c, min(first_block + b, p.k / 32 - 1));
            for (int h = 0; h < 2; h++) {
                *(uint2*)&tile.hi[c][16 * b + 8 * h + 2 * t] = make_uint2(x.hi[2 * h], x.hi[2 * h + 1]);
                *(uint2*)&tile.lo[c][16 * b + 8 * h + 2 * t] = make_uint2(x.lo[2 * h], x.lo[2 * h + 1]);
            }
            if (t == 0) {
                tile.d[b][c] = x.d;
            }
        }
    }

    DEVICE Columns get(const Tile& tile, int n, int b) {
        const int c = 8 * n + lane() / 4, t = lane() % 4;
        Columns r;
        for (int h = 0; h < 2; h++) {
            const uint2 hi = *(const uint2*)&tile.hi[c][16 * b + 8 * h + 2 * t];
            const uint2 lo = *(const uint2*)&tile.lo[c][16 * b + 8 * h + 2 * t];
            r.hi[2 * h] = hi.x, r.hi[2 * h + 1] = hi.y;
            r.lo[2 * h] = lo.x, r.lo[2 * h + 1] = lo.y;
            r.d[h] = tile.d[b][8 * n + 2 * t + h];
        }
        return r;
    }

    struct Scale {};  // each block has its own
    DEVICE Scale scale(const MatmulParams&, int, int, int) { return {}; }
    DEVICE float scaled(float acc, Scale, int) { return acc; }

    DEVICE Columns global(const MatmulParams& p, int first_column, int block, Scale) {
        const Terms x = column(p, first_column + lane() / 4, block);
        Columns r;
        for (int i = 0; i < 4; i++) {
            r.hi[i] = x.hi[i];
            r.lo[i] = x.lo[i];
        }
        for (int j = 0; j < 2; j++) {
            r.d[j] = shuffle(x.d, 8 * (lane() % 4) + 4 * j);
        }
        return r;
    }

    DEVICE void multiply(float acc[4], const Rows& rows, const Columns& columns) {
        const Terms* w = rows.row;
#if !HAS_BF16_MMA
        float c[4] = {};
#else
        float* c = acc;
#endif
        for (int h = 0; h < 4; h += 2) {
            const unsigned hi[4] = {w[0].hi[h], w[1].hi[h], w[0].hi[h + 1], w[1].hi[h + 1]};
            const unsigned lo[4] = {w[0].lo[h], w[1].lo[h], w[0].lo[h + 1], w[1].lo[h + 1]};
            mma(c, hi, &columns.hi[h]);
            mma(c, hi, &columns.lo[h]);
            if constexpr (!ONE_TERM) {
                mma(c, lo, &columns.hi[h]);
            }
        }
#if !HAS_BF16_MMA
        for (int i = 0; i < 4; i++) {
            acc[i] += c[i] * columns.d[i % 2] * w[i / 2].d;
        }
#endif
    }

private:
    DEVICE void mma(float c[4], const unsigned a[4], const unsigned b[2]) {
#if HAS_BF16_MMA
        mma_bf16_k16(c, a, b);
#else
        mma_f16_k16(c, a, b);
#endif
    }
};
