// Dense weights of 16 bits on SM 8.0+, whose tensor cores take them as they are. The f32 activations become two terms of 16 bits,
// whose products are summed in f32, so that nothing is lost of them that matters (1e-5 of the result):
//
//   bf16  x ≈ hi + lo: 16 bits together, of any size
//   f16   x ≈ (hi + lo) · down: 22 bits. A power of two per column and chunk of 256 brings the chunk's largest number to
//         2^14 ≤ |v| < 2^15, so that activations of any size fit
//
// In a block of 32, lane t takes the elements 8t .. 8t+7 of both operands, four of them in each step of 16: a permutation of K that
// mma cannot see, and 16 bytes of weights that lie together.
//
//   gemm_few    makes the terms as it goes (gemm.cuh);
//   gemm_tiles  reads terms that `split` has made, once for all blocks. Weights and terms go through shared memory, a block of
//               32 of k per stage, some stages ahead of the products. Columns are what mma calls rows: so terms, which lie as we
//               want, are the operand of four registers, and weights, which lie as in the file, that of two.
//
// Both add up in the order that gemm.cuh promises; in a step of 16 first hi, then lo.
#pragma once
#include "gemm.cuh"

#if HAS_BF16_MMA

// How two numbers become a word and back, and the mma of such words.
template <class F>
struct SixteenBits;

template <>
struct SixteenBits<BF16> {
    enum { SCALED = 0 };
    DEVICE unsigned pack(float a, float b) { return pack_bf16(a, b); }
    DEVICE float2 unpack(unsigned w) { return {__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000)}; }
    DEVICE void mma(float c[4], const unsigned a[4], const unsigned b[2]) { mma_bf16_k16(c, a, b); }
};

template <>
struct SixteenBits<F16> {
    enum { SCALED = 1 };
    DEVICE unsigned pack(float a, float b) { return pack_f16(a, b); }
    DEVICE float2 unpack(unsigned w) { return {low_half(w), high_half(w)}; }
    DEVICE void mma(float c[4], const unsigned a[4], const unsigned b[2]) { mma_f16_k16(c, a, b); }
};

// The power of two for numbers of which the largest has this magnitude, and its inverse.
struct PowerOfTwo {
    float up, down;
    __device__ __forceinline__ explicit PowerOfTwo(float largest) {
        // 2^(e - 127) ≤ largest < 2^(e - 126); e ≥ 15 keeps both normal.
        const int e = max(__float_as_int(largest) >> 23, 15);
        up = __int_as_float((268 - e) << 23);
        down = __int_as_float((e - 14) << 23);
    }
};

// Eight elements in a row of a column, and their terms, two per word.
struct Eight {
    float v[8];
    __device__ __forceinline__ float largest() const {
        float most = fabsf(v[0]);
        for (int i = 1; i < 8; i++) most = fmaxf(most, fabsf(v[i]));
        return most;
    }
};

struct EightTerms {
    unsigned hi[4], lo[4];
};

DEVICE Eight load_eight(const float* x) {
    const float4 a = ((const float4*)x)[0], b = ((const float4*)x)[1];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

template <class F>
DEVICE EightTerms split_eight(const Eight& x, float up) {
    EightTerms r;
    for (int i = 0; i < 4; i++) {
        float a = x.v[2 * i], b = x.v[2 * i + 1];
        if constexpr (SixteenBits<F>::SCALED) a *= up, b *= up;
        r.hi[i] = SixteenBits<F>::pack(a, b);
        const float2 hi = SixteenBits<F>::unpack(r.hi[i]);
        r.lo[i] = SixteenBits<F>::pack(a - hi.x, b - hi.y);
    }
    return r;
}

// What gemm_few wants of a format.
template <class F>
struct Half {
    using Format = F;
    using Columns = EightTerms;

    struct Rows {
        uint4 row[2];
    };

    // Of a chunk: `up` of column g, `down` of the columns 2t and 2t + 1.
    struct Scale {
        float up, down[2];
    };

    DEVICE Rows load(const unsigned char* const w[2], int block, int t) {
        const size_t at = 64 * (size_t)block + 16 * t;
        return {{load_weights16(w[0] + at), load_weights16(w[1] + at)}};
    }

    DEVICE Eight column(const MatmulParams& p, int first_column, int block) {
        const int c = min(first_column + lane() / 4, p.columns - 1);
        return load_eight(p.x + (size_t)c * p.k + 32 * block + 8 * (lane() % 4));
    }

    DEVICE Scale scale(const MatmulParams& p, int first_column, int begin, int end) {
        if (!SixteenBits<F>::SCALED) return {};
        float largest = 0;
        for (int b = begin; b < end; b++) largest = fmaxf(largest, column(p, first_column, b).largest());
        const PowerOfTwo scale(group_max<4>(largest));
        const int from = 8 * (lane() % 4);
        return {scale.up, {shuffle(scale.down, from), shuffle(scale.down, from + 4)}};
    }

    DEVICE Columns global(const MatmulParams& p, int first_column, int block, const Scale& scale) {
        return split_eight<F>(column(p, first_column, block), scale.up);
    }

    DEVICE void multiply(float acc[4], const Rows& rows, const Columns& x) {
        const uint4 *a = &rows.row[0], *b = &rows.row[1];
        const unsigned first[4] = {a->x, b->x, a->y, b->y}, second[4] = {a->z, b->z, a->w, b->w};
        SixteenBits<F>::mma(acc, first, &x.hi[0]);
        SixteenBits<F>::mma(acc, first, &x.lo[0]);
        SixteenBits<F>::mma(acc, second, &x.hi[2]);
        SixteenBits<F>::mma(acc, second, &x.lo[2]);
    }

    // The sum of a chunk, of column 2t + j.
    DEVICE float scaled(float acc, const Scale& scale, int j) { return SixteenBits<F>::SCALED ? product(acc, scale.down[j]) : acc; }
};

// Terms of 16 columns × 32 of k, as lanes load them: of columns g and g + 8, for each step of 16.
struct TermBlock {
    uint4 lanes[2][2][32];  // [step][hi, lo][lane]
};

// Makes the terms of x: a block has a chunk of 16 columns, a warp a block of 32 of it. Columns past the end are 0.
template <class F>
DEVICE void split(const MatmulParams& p) {
    SHARED(float, largest, [CHUNK_BLOCKS][16]);
    const int g = lane() / 4, t = lane() % 4, blocks = p.k / 32;
    const int block = blockIdx.x * CHUNK_BLOCKS + warp(), first_column = blockIdx.y * 16;
    Eight x[2] = {};
    for (int i = 0; i < 2; i++) {
        const int column = first_column + 8 * i + g;
        if (block < blocks && column < p.columns) x[i] = load_eight(p.x + (size_t)column * p.k + 32 * block + 8 * t);
    }
    float up[2] = {1, 1};
    if constexpr (SixteenBits<F>::SCALED) {
        for (int i = 0; i < 2; i++) {
            const float most = group_max<4>(x[i].largest());
            if (t == 0) largest[warp()][8 * i + g] = most;
        }
        block_sync();
        for (int i = 0; i < 2; i++) {
            float most = 0;
            for (int w = 0; w < CHUNK_BLOCKS; w++) most = fmaxf(most, largest[w][8 * i + g]);
            const PowerOfTwo scale(most);
            up[i] = scale.up;
            if (warp() == 0 && t == 0) p.terms.down[(first_column + 8 * i + g) * gridDim.x + blockIdx.x] = scale.down;
        }
    }
    if (block >= blocks) return;
    const EightTerms a = split_eight<F>(x[0], up[0]), b = split_eight<F>(x[1], up[1]);
    TermBlock& to = ((TermBlock*)p.terms.blocks)[(size_t)blockIdx.y * blocks + block];
    for (int step = 0; step < 2; step++) {
        to.lanes[step][0][lane()] = make_uint4(a.hi[2 * step], b.hi[2 * step], a.hi[2 * step + 1], b.hi[2 * step + 1]);
        to.lanes[step][1][lane()] = make_uint4(a.lo[2 * step], b.lo[2 * step], a.lo[2 * step + 1], b.lo[2 * step + 1]);
    }
}

// DOWN × ACROSS warps of 8·N rows × 16·M columns each.
template <int N_, int M_, int DOWN_, int ACROSS_>
struct TileShape {
    static constexpr int N = N_, M = M_, DOWN = DOWN_, ACROSS = ACROSS_;
    static constexpr int ROWS = 8 * N * DOWN, COLUMNS = 16 * M * ACROSS, THREADS = 32 * DOWN * ACROSS;
    static constexpr int ROWS_LOG2 = ROWS == 128 ? 7 : 6;
    static constexpr int STAGES = 4;
    static_assert(CHUNK_BLOCKS % STAGES == 0, "a block of a chunk has the same place in every chunk");

    // A block of 32 of k. Lanes load 16 bytes, a quarter of a warp at a time: all banks once.
    struct Stage {
        uint4 w[ROWS][4];
        TermBlock x[COLUMNS / 16];
    };
    static constexpr int SHARED_BYTES = STAGES * sizeof(Stage);
};
using LargeTile = TileShape<8, 2, 2, 4>;
using MediumTile = TileShape<8, 2, 2, 2>;
using SmallTile = TileShape<4, 2, 2, 2>;

// What a thread copies of every stage: 16 bytes from each of these places, in steps of a block.
template <class T>
struct TileSource {
    static constexpr int AT_ONCE = T::THREADS / 4;  // rows
    static constexpr int W = T::ROWS / AT_ONCE, X = T::COLUMNS * 8 / T::THREADS;
    const unsigned char* w[W];
    const uint4* x[X];

    // Rows past the end are the last one again, columns the last 16: they are not stored.
    __device__ __forceinline__ TileSource(const MatmulParams& p, const Segment& segment, int first_row, int first_column) {
        const int i = threadIdx.x, groups = (p.columns + 15) / 16;
        for (int n = 0; n < W; n++) {
            const int row = min(first_row + i / 4 + n * AT_ONCE, segment.rows - 1);
            w[n] = segment.w + (size_t)row * p.k * 2 + 16 * (i % 4);
        }
        for (int n = 0; n < X; n++) {
            const int at = i + n * T::THREADS, group = min(first_column / 16 + at / 128, groups - 1);
            x[n] = p.terms.blocks + (size_t)group * (p.k / 32) * 128 + at % 128;
        }
    }

    __device__ __forceinline__ void copy(typename T::Stage& stage, int block) const {
        const int i = threadIdx.x;
        for (int n = 0; n < W; n++) cp_async16(&stage.w[i / 4 + n * AT_ONCE][i % 4], w[n] + 64 * block, 1);
        for (int n = 0; n < X; n++) cp_async16((uint4*)stage.x + i + n * T::THREADS, x[n] + 128 * block, 1);
    }

    __device__ __forceinline__ void advance(int blocks) {
        for (int n = 0; n < W; n++) w[n] += 64 * blocks;
        for (int n = 0; n < X; n++) x[n] += 128 * blocks;
    }
};

// What a warp holds of a stage, in registers.
template <class T>
struct Held {
    uint4 w[T::N];
    uint4 x[2][T::M][2];  // [step][16 columns][hi, lo]

    __device__ __forceinline__ void load_w(const typename T::Stage& stage, int warp_row, int n) {
        w[n] = stage.w[warp_row + 8 * n + lane() / 4][lane() % 4];
    }
    __device__ __forceinline__ void load_x(const typename T::Stage& stage, int warp_column, int step) {
        for (int i = 0; i < 2 * T::M; i++) x[step][i / 2][i % 2] = stage.x[warp_column / 16 + i / 2].lanes[step][i % 2][lane()];
    }
    // A step of two tiles of rows, so that sums do not wait for each other. acc[m][n]: of columns g (0, 1) and g + 8 (2, 3), rows
    // 2t and 2t + 1.
    template <class F>
    __device__ __forceinline__ void multiply(float (&acc)[T::M][T::N][4], int step, int first) const {
        for (int term = 0; term < 2; term++) {
            for (int n = first; n < first + 2; n++) {
                const unsigned rows[2] = {step ? w[n].z : w[n].x, step ? w[n].w : w[n].y};
                for (int m = 0; m < T::M; m++) {
                    const uint4& a = x[step][m][term];
                    const unsigned columns[4] = {a.x, a.y, a.z, a.w};
                    SixteenBits<F>::mma(acc[m][n], columns, rows);
                }
            }
        }
    }
};

template <class F, class T>
DEVICE void gemm_tiles(const MatmulParams& p) {
    using Stage = typename T::Stage;
    DYN_SHARED(Stage, stages);
    const SegmentTile here = segment_tile(p, T::ROWS_LOG2);
    const Segment& segment = p.segment[here.segment];
    const int warp_row = warp() % T::DOWN * 8 * T::N, warp_column = warp() / T::DOWN * 16 * T::M;
    const int first_row = here.block * T::ROWS, first_column = blockIdx.y * T::COLUMNS;
    const int g = lane() / 4, t = lane() % 4, blocks = p.k / 32, chunks = (blocks + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS;
    TileSource<T> source(p, segment, first_row, first_column);
    // Sums of this lane: columns of i = 0 .. 2·M - 1, rows of j = 0 .. 2·N - 1.
    auto column = [&](int i) { return first_column + warp_column + 8 * i + g; };
    auto row = [&](int j) { return first_row + warp_row + j / 2 * 8 + 2 * t + j % 2; };

    for (int b = 0; b < T::STAGES; b++) {
        source.copy(stages[b], min(b, blocks - 1));
        cp_async_commit();
    }
    cp_async_wait<T::STAGES - 1>();
    block_sync();
    Held<T> held;
    held.load_x(stages[0], warp_column, 0);
    for (int n = 0; n < T::N; n++) held.load_w(stages[0], warp_row, n);
    float total[T::M][T::N][4] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; chunk++) {
        float down[2 * T::M];
        if constexpr (SixteenBits<F>::SCALED) {
            for (int i = 0; i < 2 * T::M; i++) down[i] = p.terms.down[min(column(i), p.columns - 1) * chunks + chunk];
        }
        float acc[T::M][T::N][4] = {};
#pragma unroll
        for (int i = 0; i < CHUNK_BLOCKS; i++) {
            const int left = blocks - chunk * CHUNK_BLOCKS - i;
            Stage &stage = stages[i % T::STAGES], &next = stages[(i + 1) % T::STAGES];
            held.load_x(stage, warp_column, 1);
            for (int n = 0; n < T::N; n += 2) held.template multiply<F>(acc, 0, n);
            cp_async_wait<T::STAGES - 2>();
            block_sync();  // the next stage is complete, and all is held of this one
            if (left > T::STAGES) source.copy(stage, i + T::STAGES);
            cp_async_commit();
            held.load_x(next, warp_column, 0);  // behind the last stage an old one, for nothing
            for (int n = 0; n < T::N; n += 2) {
                held.template multiply<F>(acc, 1, n);
                for (int j = n; j < n + 2; j++) held.load_w(next, warp_row, j);  // into registers that have become free
            }
            if (left <= 1) break;
        }
        source.advance(CHUNK_BLOCKS);
        for (int m = 0; m < T::M; m++) {
            for (int n = 0; n < T::N; n++) {
                for (int i = 0; i < 4; i++) {
                    const float value = SixteenBits<F>::SCALED ? product(acc[m][n][i], down[2 * m + i / 2]) : acc[m][n][i];
                    total[m][n][i] = sum(total[m][n][i], value);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2 * T::M; i++) {
        if (column(i) >= p.columns || !live(p.seq, column(i))) continue;
        float* y = segment.y + (size_t)column(i) * segment.y_stride;
#pragma unroll
        for (int j = 0; j < 2 * T::N; j++) {
            if (row(j) < segment.rows) y[row(j)] = biased(segment, row(j), total[i / 2][j / 2][i % 2 * 2 + j % 2]);
        }
    }
    if (p.softcap > 0) {  // rare, and long code: apart from the loops above, which are unrolled
#pragma unroll 1
        for (int i = 0; i < 4 * T::M * T::N; i++) {
            if (float* y = target(p, segment, row(i % (2 * T::N)), column(i / (2 * T::N)))) *y = p.softcap * tanhf(*y / p.softcap);
        }
    }
}

#endif
