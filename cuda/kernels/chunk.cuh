// The arithmetic of quantized products, and nothing else: 16 rows × 128 columns of weights times some columns of activations.
//
// A chunk of 128 starts from zero and takes its four blocks of 32 in order:
//
//   one scale per block    acc = fma(Σ q·a · d_w, d_a, acc), then acc = fma(m_w, s_a, acc) where there is a minimum
//   one of each half       acc = fma(fma(Σ q·a, d_w, Σ' q·a · d'_w), d_a, acc) with ' for the upper half
//   scales are integers    acc = fma(float(Σ q·a · sc), d_a, acc); low = fma(float(m), s_a, low); at the end
//                          acc·d_w − low·dmin_w; low is made by tensor cores where they multiply bf16
//
// with s_a = d_a · Σ a. Sums of integers are exact. A row's total is the sum of its chunks in order, from zero. So a result has the
// same bits in every kernel that takes chunks from here, in whatever grid, however many columns there are.
#pragma once
#include "matmul.cuh"

constexpr int CHUNK = 128;

DEVICE void four(float to[4], const float* from) {
    const float4 v = *(const float4*)from;
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

// Where one step of an f32 is 1: the bits of 1.5 · 2^23 and an integer within ± 2^22 are the float of their sum.
constexpr int OFFSET = 0x4b400000;
constexpr float OFFSET_FLOAT = 12582912.0f;

// Where sums of integers start, and what they are as a float: where conversions are slow a subtraction converts them.
#if FAST_INT_TO_FLOAT
constexpr int EXACT = 0;
DEVICE float to_float(int sum) { return (float)sum; }
#else
constexpr int EXACT = OFFSET;
DEVICE float to_float(int sum) { return __int_as_float(sum) - OFFSET_FLOAT; }
#endif

// A scale of a row, and what takes the offset off a product with it: no conversion for each sum, but one product for each scale.
// Of 19 bits at most; all below is exact but for the rounding of sum · d.
struct OffsetScale {
    float d, offset;
    __device__ __forceinline__ OffsetScale(float d) : d(d), offset(product(d, -OFFSET_FLOAT)) {}
    // float(sum) · d, of a sum that started at OFFSET.
    __device__ __forceinline__ float times(int sum) const { return fmaf(__int_as_float(sum), d, offset); }
};

// Whether minimums are multiplied on tensor cores: as integers they are bf16, and what they are multiplied with is the sum of three.
template <class F>
constexpr int MMA_MINIMUMS = HAS_BF16_MMA && F::INTEGER && F::MIN && F::SCALES == 1;

// x, exactly, as three bf16, the largest one in the upper half of the first word.
DEVICE uint2 split_bf16(float x) {
    const float rest = x - __uint_as_float(__float_as_uint(x) & 0xffff0000);
    const float least = rest - __uint_as_float(__float_as_uint(rest) & 0xffff0000);
    return {permute_bytes(__float_as_uint(rest), __float_as_uint(x), 0x7632), __float_as_uint(least) >> 16};
}

// What mma takes of the minimums of a chunk: a lane has those of block t, for each part of what they are multiplied with.
template <class F>
DEVICE void minimums(unsigned a[4], const typename F::Held& w, int c) {
    for (int i = 0; i < 2; i++) a[i] = a[i + 2] = permute_bytes(__float_as_uint(F::minimum(w, c, i, lane() % 4, 0)), 0, 0x3232);
}

// Tells a lane of a format with a grid where it lies.
template <class F>
DEVICE void lend_grid(typename F::Held& w, int l, const unsigned short* grid) {
    if constexpr (F::GRID) F::lend(w, l, grid);
}

// Shared memory for the grid of a format, or null.
template <class F>
DEVICE unsigned short* grid_memory() {
    if constexpr (F::GRID) {
        SHARED(unsigned short, grid, [F::GRID]);
        return grid;
    }
    return nullptr;
}

// The grid from device memory, by all threads of a block, which meets before it is read.
template <class F>
DEVICE void bring_grid(unsigned short* to, const unsigned short* from) {
    for (int i = threadIdx.x; i < F::GRID / 8; i += blockDim.x) ((uint4*)to)[i] = load_weights16((const uint4*)from + i);
}

// One block of 32 of a lane's rows: what mma takes.
template <class F>
DEVICE void quads(unsigned a[4], const typename F::Held& w, int c, int j) {
    for (int i = 0; i < 4; i++) a[i] = F::quad(w, c, i % 2, j, i / 2);
}

// acc[n] = chunk c of `w` times the 8 columns of tile n, for N tiles. A lane has rows g, g + 8 and columns 2t, 2t + 1 of each
// tile; ONE: all columns of the tile are the same one, and only acc[n][0] and acc[n][2] are made.
//
// X brings the activations: octet(n, j) of column g; scales(n, j) of the columns 2t and 2t + 1; sums(n, j, half) of their halves, or of
// the whole block where the weights have one scale for both; for MMA_MINIMUMS split_sum(n) in their place, that of block t of column g
// as split_bf16() makes it.
template <class F, int N, int ONE, class X>
DEVICE void chunk(float (&acc)[N][4], const typename F::Held& w, int c, const X& x) {
    constexpr int STEP = ONE ? 2 : 1;
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < 4; i++) acc[n][i] = 0;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        unsigned a[4];
        quads<F>(a, w, c, j);
        if constexpr (!F::INTEGER && F::SCALES == 2) {
            const float d[4] = {F::scale(w, 0, j, 0), F::scale(w, 1, j, 0), F::scale(w, 0, j, 1), F::scale(w, 1, j, 1)};
            for (int n = 0; n < N; n++) {
                const uint2 q = x.octet(n, j);
                const float2 scales = x.scales(n, j);
                int low[4], high[4];
                mma_s8_k16(EXACT, low, a, q.x);
                mma_s8_k16(EXACT, high, a + 2, q.y);
                for (int i = 0; i < 4; i += STEP) {
                    const float both = fmaf(to_float(low[i]), d[i / 2], product(to_float(high[i]), d[2 + i / 2]));
                    acc[n][i] = fmaf(both, i % 2 ? scales.y : scales.x, acc[n][i]);
                }
            }
        } else if constexpr (!F::INTEGER) {
            const OffsetScale d[2] = {F::scale(w, 0, j), F::scale(w, 1, j)};
            float m[2] = {0, 0};
            if constexpr (F::MIN) m[0] = F::minimum(w, 0, j), m[1] = F::minimum(w, 1, j);
            for (int n = 0; n < N; n++) {
                const uint2 q = x.octet(n, j);
                const float2 scales = x.scales(n, j), sums = F::MIN ? x.sums(n, j, 0) : float2{0, 0};
                const unsigned b[2] = {q.x, q.y};
                int sum[4];
                mma_s8_k32(ONE ? EXACT : OFFSET, sum, a, b);
                for (int i = 0; i < 4; i += STEP) {
                    const float scaled = ONE ? product(to_float(sum[i]), d[i / 2].d) : d[i / 2].times(sum[i]);
                    acc[n][i] = fmaf(scaled, i % 2 ? scales.y : scales.x, acc[n][i]);
                    if (F::MIN) acc[n][i] = fmaf(m[i / 2], i % 2 ? sums.y : sums.x, acc[n][i]);
                }
            }
        } else if constexpr (F::SCALES == 1) {
            const int scale[2] = {F::scale(w, c, 0, j, 0), F::scale(w, c, 1, j, 0)};
            // The same bits: what rounds, where F is not SMALL, is the product as a float.
            constexpr int AS_FLOAT = N > 1;
            const OffsetScale d[2] = {(float)scale[0], (float)scale[1]};
            for (int n = 0; n < N; n++) {
                const uint2 q = x.octet(n, j);
                const float2 scales = x.scales(n, j);
                const unsigned b[2] = {q.x, q.y};
                int sum[4];
                mma_s8_k32(AS_FLOAT ? OFFSET : 0, sum, a, b);
                for (int i = 0; i < 4; i += STEP) {
                    const float scaled = AS_FLOAT ? d[i / 2].times(sum[i]) : F::SMALL ? to_float(sum[i] * scale[i / 2] + EXACT) : (float)(sum[i] * scale[i / 2]);
                    acc[n][i] = fmaf(scaled, i % 2 ? scales.y : scales.x, acc[n][i]);
                }
            }
        } else {
            const int scale[4] = {F::scale(w, c, 0, j, 0), F::scale(w, c, 1, j, 0), F::scale(w, c, 0, j, 1), F::scale(w, c, 1, j, 1)};
            for (int n = 0; n < N; n++) {
                const uint2 q = x.octet(n, j);
                const float2 scales = x.scales(n, j);
                int low[4], high[4];
                mma_s8_k16(0, low, a, q.x);
                mma_s8_k16(0, high, a + 2, q.y);
                for (int i = 0; i < 4; i += STEP) {
                    const int sum = low[i] * scale[i / 2] + (high[i] * scale[2 + i / 2] + (F::SMALL ? EXACT : 0));
                    acc[n][i] = fmaf(F::SMALL ? to_float(sum) : (float)sum, i % 2 ? scales.y : scales.x, acc[n][i]);
                }
            }
        }
    }
    if constexpr (F::INTEGER) {
        const float d[2] = {F::d(w, 0), F::d(w, 1)};
        for (int n = 0; n < N; n++) {
            for (int i = 0; i < 4; i += STEP) acc[n][i] = product(acc[n][i], d[i / 2]);
        }
        if constexpr (F::MIN) {
            const float dmin[2] = {F::dmin(w, 0), F::dmin(w, 1)};
            unsigned a[4];
            if constexpr (MMA_MINIMUMS<F>) minimums<F>(a, w, c);
            for (int n = 0; n < N; n++) {
                float low[4] = {0, 0, 0, 0};
#if HAS_BF16_MMA
                if constexpr (MMA_MINIMUMS<F>) {
                    const uint2 split = x.split_sum(n);
                    const unsigned b[2] = {split.x, split.y};
                    mma_bf16_k16(low, a, b);
                }
#endif
                if constexpr (!MMA_MINIMUMS<F>) {
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        for (int half = 0; half < F::SCALES; half++) {
                            const float2 sums = x.sums(n, j, half);
                            for (int i = 0; i < 4; i += STEP) {
                                low[i] = fmaf(F::minimum(w, c, i / 2, j, half), i % 2 ? sums.y : sums.x, low[i]);
                            }
                        }
                    }
                }
                for (int i = 0; i < 4; i += STEP) acc[n][i] = fmaf(-low[i], dmin[i / 2], acc[n][i]);
            }
        }
    }
}

// Codes stand for multiples of 2^POWER, which is taken out at the end: exact.
template <class F>
DEVICE float scaled(float total) {
    if constexpr (F::POWER < 0) {
        return total * (1 << -F::POWER);
    } else {
        return total * (1.0f / (1 << F::POWER));
    }
}

// What weights are multiplied by beside their own scales.
template <class F>
DEVICE float scale_beside(const Segment& segment, int expert) {
    if constexpr (F::SCALED) return segment.scale ? segment.scale[expert] : 1.0f;
    return 1.0f;
}
template <class F>
DEVICE float with_scale(float total, float scale) {
    if constexpr (F::SCALED) return product(total, scale);
    return total;
}

// Record r of row tile `tile` of a matrix with `records` in a row.
template <class F>
DEVICE const unsigned char* record(const unsigned char* w, int records, int tile, int r) {
    return w + ((size_t)tile * records + r) * F::RECORD;
}

template <class F>
DEVICE int records(int k) { return (k + F::COLUMNS - 1) / F::COLUMNS; }
