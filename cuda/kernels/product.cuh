// Matrix times one column, up to 8, or up to 16, quantized weights: three kernels per format; and one for one column that is yet to
// be normed. Also the gated half of a feed-forward layer with its gate, activation(gate·x)·(up·x).
//
// A block owns a few row tiles of one segment (gated: as many of the gate as of up; two and two make 32 outputs: one block of the
// next image), whose records its warps take in turn. Every warp puts the sums of its chunks into shared memory; then they are
// added row by row in the order of the chunks. So neither the number of warps nor that of tiles is in a result's bits.
//
// Every block norms the column for itself, while its first records are on their way: cheaper than a launch of its own.
//
// Grid: Σ over segments of ceil(rows / (16·tiles)) blocks (gated: ceil(rows / (8·tiles))) × ceil(columns / C), or of experts × their tiles of columns; threads and tiles as
// ops/product.rs plans them; shared memory 16.5, 33, or 45 KB (a normed column: 1.375 bytes more per element; a grid: up to 4 KB more). Moves the weights once
// per C columns, the columns through the caches at 1.375 bytes per element (to be normed: 16), and 4 bytes per result (1.375
// where it is an image).
#pragma once
#include "activation.cuh"
#include "chunk.cuh"
#include "norm.cuh"

constexpr int MOST_TILES = 8;   // of a block with one column; with more 4
constexpr int MOST_WARPS = 16;
constexpr int MOST_NORM_WARPS = 8;   // of a block that norms its column: two of them fit on a multiprocessor

// C: most columns of a block.
template <int C>
struct Shape {
    static constexpr int TILES = C > 8 ? C / 8 : 1;              // of 8 columns
    static constexpr int STRIDE = C == 1 ? 16 : 20;             // from column to column of 16 sums: stores of a warp meet no bank twice
    static constexpr int SUMS = C * STRIDE;                     // of a chunk
    static constexpr int CHUNKS = C == 1 ? 128 : C == 8 ? 24 : 16;  // whose sums fit at once
    static constexpr int TOTALS = 16 * C * (C == 1 ? MOST_TILES : 4);
};

// 128 activations of the columns of a block, in registers: a lane has the octets of column g and the scales of columns 2t, 2t + 1 of
// each tile; of one column all lanes have it.
template <class F, int C>
struct Activations {
    static constexpr int TILES = Shape<C>::TILES, SHOWN = C == 1 ? 1 : 2;
    uint2 q[TILES][4];
    float scale[TILES][SHOWN][4];
    float half_sum[TILES][SHOWN][F::MIN && !MMA_MINIMUMS<F> ? 8 : 1];
    uint2 split[TILES];
    __device__ __forceinline__ uint2 octet(int n, int j) const { return q[n][j]; }
    __device__ __forceinline__ float2 scales(int n, int j) const { return {scale[n][0][j], scale[n][SHOWN - 1][j]}; }
    __device__ __forceinline__ float2 sums(int n, int j, int half) const {
        const float *a = half_sum[n][0] + 2 * j, *b = half_sum[n][SHOWN - 1] + 2 * j;
        if (F::SCALES == 1) return {sum(a[0], a[1]), sum(b[0], b[1])};
        return {a[half], b[half]};
    }
    __device__ __forceinline__ uint2 split_sum(int n) const { return split[n]; }
};

// Where a lane finds the activations of its columns. Columns past the last are the last one again, and never stored.
// WHOLE: there are whole chunks of 128. Else blocks past the last of k are the last one again: their weights have no scales.
template <class F, int C, int WHOLE>
struct Columns {
    using X = Activations<F, C>;
    const signed char* q[X::TILES];
    const float *d[X::TILES][X::SHOWN], *s[X::TILES][X::SHOWN];  // for MMA_MINIMUMS the first s: of block t of column g
    int blocks;
    int start;  // first block of the only column: an address of its own would not be uniform
    __device__ __forceinline__ Columns(const QuantizedActivations& image, int k, const ColumnTile& columns) {
        const int last = columns.end - 1, t = lane() % 4;
        blocks = k / 32;
        start = C == 1 ? columns.one * blocks : 0;
        for (int n = 0; n < X::TILES; n++) {
            const size_t mine = C == 1 ? 0 : columns.x_column(min(columns.first + 8 * n + lane() / 4, last));
            q[n] = image.q + mine * k + 8 * t;
            for (int i = 0; i < X::SHOWN; i++) {
                const size_t column = C == 1 ? 0 : columns.x_column(min(columns.first + 8 * n + 2 * t + i, last));
                d[n][i] = image.d + column * blocks;
                s[n][i] = MMA_MINIMUMS<F> ? image.s + mine * 2 * blocks + 2 * t : image.s + column * 2 * blocks;
            }
        }
    }
    // Four blocks from `first` on.
    __device__ __forceinline__ X at(int first) const {
        X x;
        const int last = start + blocks - 1;
        first += start;
        for (int n = 0; n < X::TILES; n++) {
            for (int j = 0; j < 4; j++) x.q[n][j] = *(const uint2*)(q[n] + 32 * (WHOLE ? first + j : min(first + j, last)));
            if constexpr (MMA_MINIMUMS<F>) {
                const float2 halves = *(const float2*)(s[n][0] + 2 * first);
                x.split[n] = split_bf16(sum(halves.x, halves.y));
            }
            for (int i = 0; i < X::SHOWN; i++) {
                if (WHOLE) {
                    four(x.scale[n][i], d[n][i] + first);
                    if constexpr (F::MIN && !MMA_MINIMUMS<F>) four(x.half_sum[n][i], s[n][i] + 2 * first), four(x.half_sum[n][i] + 4, s[n][i] + 2 * first + 4);
                    continue;
                }
                for (int j = 0; j < 4; j++) {
                    const int block = min(first + j, last);
                    x.scale[n][i][j] = d[n][i][block];
                    for (int half = 0; F::MIN && !MMA_MINIMUMS<F> && half < 2; half++) x.half_sum[n][i][2 * j + half] = s[n][i][2 * block + half];
                }
            }
        }
        return x;
    }
};

// The row tiles of a block: `count` from tile `first` of a segment on; gated: half of them of segment 0, then as many of segment 1.
struct Tiles {
    int segment, first, count;
};

// `sums`: two halves that take turns; `totals`: those of rows whose chunks take several rounds.
template <int C>
struct Shared {
    float (*sums)[Shape<C>::CHUNKS * Shape<C>::SUMS];
    float* totals;
};

// Formats whose weights leave few registers for anything else.
template <class F>
constexpr int FEW_REGISTERS = F::SCALES == 2 && F::MIN;
// And those whose weights leave many.
template <class F>
constexpr int LIGHT = !F::INTEGER && !F::MIN;

// Formats with a table: where the compiler knows that warps do not diverge it brings the table's words again in every turn.
template <class F>
constexpr int TABLE = 0;
template <>
constexpr int TABLE<IQ4_NL> = 1;
template <>
constexpr int TABLE<IQ4_XS> = 1;
template <>
constexpr int TABLE<MXFP4> = 1;
template <>
constexpr int TABLE<NVFP4> = 1;

// The records of a block's row tiles, which lie one after the other: unit u is record u of this stream. Gated, the second half is a
// stream of its own.
template <class F>
struct Records {
    const unsigned char* at;  // of this lane
    size_t jump;              // to the second half
    int step;                 // to the next record of the warp
    int unit, half, units;    // the warp's record, the first of the second half, all
    int r, on, in_row;        // the place of the warp's record in its row of records, how far it moves, how long that is
    __device__ __forceinline__ Records(const MatmulParams& p, const Tiles& tiles, const ColumnTile& columns) {
        const Segment& segment = p.segment[tiles.segment];
        const int warps = blockDim.x / 32, row_factor = p.row_factor[F::COLUMNS / CHUNK - 1];
        in_row = records<F>(p.k), units = tiles.count * in_row, unit = TABLE<F> ? warp() : uniform_warp(), half = p.gated ? units / 2 : units;
        const size_t first = (size_t)(tiles.first + columns.row(segment) / 16) * in_row * F::RECORD;
        step = warps * F::RECORD;
        at = segment.w + first + (size_t)min(unit, units - 1) * F::RECORD + 16 * lane();
        jump = p.gated ? from_half(p) : 0;
        if (p.gated) enter_half(p);
        r = unit - (unit * row_factor >> 16) * in_row, on = warps - (warps * row_factor >> 16) * in_row;
    }
    __device__ __forceinline__ size_t from_half(const MatmulParams& p) const {
        return p.segment[1].w - p.segment[0].w - (long long)half * F::RECORD;
    }
    __device__ __forceinline__ void enter_half(const MatmulParams& p) {
        if (unit < half) return;
        at += FEW_REGISTERS<F> ? from_half(p) : jump;
        half = units;
    }
    __device__ __forceinline__ void next(const MatmulParams& p) {
        unit += blockDim.x / 32;
        at += step;
        if (!FEW_REGISTERS<F> || p.gated) enter_half(p);
        r += on;
        r -= r >= in_row ? in_row : 0;
    }
    __device__ __forceinline__ typename F::Held load() const { return F::load(at, lane()); }
};

// Asks L2 for the first bytes of the streams of a block, at most `ahead` of each: what waits for registers from memory would wait
// for all of them.
DEVICE void prefetch_records(const MatmulParams& p, const Tiles& tiles, const ColumnTile& columns, int record, int in_row) {
    const Segment& segment = p.segment[tiles.segment];
    const size_t first = (size_t)(tiles.first + columns.row(segment) / 16) * in_row * record;
    const int bytes = min((p.gated ? tiles.count / 2 : tiles.count) * in_row * record, p.ahead);
    prefetch(segment.w + first, bytes);
    if (p.gated) prefetch(p.segment[1].w + first, bytes);
}

// The records begin..end of a block's `units`, whose chunks have their sums in shared memory.
template <class F, int C>
struct Round {
    const float* sums;
    float* totals;
    int begin, end, units, in_row;
    // Row `row` of N tiles, some column: these chunks joined, in order, to what there was before.
    template <int N>
    __device__ __forceinline__ void total(float (&v)[N], const int (&of)[N], int row, int column) const {
        constexpr int CHUNKS = F::COLUMNS / CHUNK, AT_ONCE = N == 1 ? 8 : 4;  // for more of two, ptxas 12.9 dies on sm_120
        int left[N], most = 0;
        const float* next[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int from = max(begin, of[i] * in_row), to = min(end, (of[i] + 1) * in_row);
            v[i] = begin ? totals[(of[i] * C + column) * 16 + row] : 0.0f;
            left[i] = (to - from) * CHUNKS;
            most = max(most, left[i]);
            next[i] = sums + (from - begin) * CHUNKS * Shape<C>::SUMS + column * Shape<C>::STRIDE + row;
        }
#pragma unroll 1
        for (int done = 0; done < most; done += AT_ONCE) {
            float x[N][AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                for (int i = 0; i < N; i++) x[i][j] = done + j < left[i] ? next[i][(done + j) * Shape<C>::SUMS] : 0.0f;
            }
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                for (int i = 0; i < N; i++) v[i] += x[i][j];  // v is never -0: zeros change nothing
            }
        }
        for (int i = 0; i < N; i++) {
            if (end < units) totals[(of[i] * C + column) * 16 + row] = v[i];
            v[i] = scaled<F>(v[i]);
        }
    }
};

// Where the results of a block's column go; -1: nowhere. One column is known to be wanted.
template <int C>
DEVICE int y_column_of(const MatmulParams& p, const ColumnTile& columns, int column) {
    if (C == 1) return columns.first;
    if (columns.first + column >= columns.end) return -1;
    const int y_column = columns.y_column(columns.first + column);
    return live(p.seq, y_column) ? y_column : -1;
}

template <class F, int C, int WHOLE>
DEVICE void multiply(const MatmulParams& p, const Tiles& tiles, const ColumnTile& columns, const Shared<C>& shared, const QuantizedActivations& image, Records<F> at, typename F::Held w) {
    using S = Shape<C>;
    constexpr int CHUNKS = F::COLUMNS / CHUNK;  // of a record
    const Segment& segment = p.segment[tiles.segment];
    const int warp = at.unit, warps = blockDim.x / 32, t = lane() % 4, g = lane() / 4;
    const int in_row = at.in_row, units = at.units, round = (S::CHUNKS / CHUNKS * p.warp_factor >> 16) * warps;
    const Columns<F, C, WHOLE> x(image, p.k, columns);
    const float scale[] = {scale_beside<F>(segment, columns.expert), scale_beside<F>(p.segment[1], columns.expert)};
    const int place = C == 1 ? g + 8 * (t & 1) : 2 * t * S::STRIDE + g;  // of this lane's first sum
#pragma unroll 1
    for (int begin = 0, turn = 0; begin < units; begin += round, turn ^= 1) {
        const int end = min(begin + round, units);
        float* to = shared.sums[turn] + (at.unit - begin) * CHUNKS * S::SUMS + place;
#pragma unroll 1
        for (; at.unit < end; to += warps * CHUNKS * S::SUMS) {
            float acc[CHUNKS][S::TILES][4];
            lend_grid<F>(w, lane(), grid_memory<F>());
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) chunk<F, S::TILES, C == 1>(acc[c], w, c, x.at(at.r * (F::COLUMNS / 32) + 4 * c));
            at.next(p);
            if (at.unit < units) w = at.load();
            for (int c = 0; c < CHUNKS; c++) {
                if (C == 1) {
                    if (t < 2) to[c * S::SUMS] = t ? acc[c][0][2] : acc[c][0][0];
                } else {
                    for (int n = 0; n < S::TILES; n++) {
                        for (int i = 0; i < 4; i++) to[c * S::SUMS + (8 * n + i % 2) * S::STRIDE + i / 2 * 8] = acc[c][n][i];
                    }
                }
            }
        }
        block_sync();  // the next round writes the other half of `sums`
        const Round<F, C> done = {shared.sums[turn], shared.totals, begin, end, units, in_row};
        if (p.gated) {
            // Two row tiles of both: a block of the next image.
            for (int i = warp; i < C * ((tiles.count + 3) / 4); i += warps) {
                const int column = i % C, of = 2 * (i / C) + lane() / 16, row = 16 * (tiles.first + of) + lane() % 16;
                float v = 0.0f;
                if (row < segment.rows) {
                    const int both[] = {of, tiles.count / 2 + of};
                    float x[2];
                    done.total(x, both, lane() % 16, column);
                    for (int s = 0; s < 2; s++) x[s] = with_scale<F>(x[s], scale[s]);
                    if (segment.bias) x[0] += segment.bias[columns.row(segment) + row];
                    if (p.segment[1].bias) x[1] += p.segment[1].bias[columns.row(p.segment[1]) + row];
                    v = gated(x[0], x[1], p.activation);
                }
                if (end < units) continue;
                const int y_column = y_column_of<C>(p, columns, column);
                if (y_column < 0) continue;
                if (row < segment.rows && segment.y) segment.y[(size_t)y_column * segment.y_stride + row] = v;
                if (p.out.q) quantize_block(p.out, y_column, segment.rows, tiles.first / 2 + i / C, v);
            }
        } else {
            for (int i = threadIdx.x; i < 16 * C * tiles.count; i += blockDim.x) {
                const int of = i / (16 * C), column = i / 16 % C, row = 16 * (tiles.first + of) + i % 16;
                const int one[] = {of};
                float v[1];
                done.total(v, one, i % 16, column);
                v[0] = with_scale<F>(v[0], scale[0]);
                if (end < units || row >= segment.rows) continue;
                const int y_column = y_column_of<C>(p, columns, column);
                if (y_column < 0) continue;
                const float biased = segment.bias ? v[0] + segment.bias[columns.row(segment) + row] : v[0];
                segment.y[(size_t)y_column * segment.y_stride + row] = soft_cap(biased, p.softcap);
            }
        }
    }
}

DEVICE Tiles tiles_of(const MatmulParams& p) {
    const SegmentTile at = segment_tile(p, 4 + p.tile_shift);
    const int wanted = 1 << p.tile_shift - (p.gated ? 1 : 0), segment = p.gated ? 0 : at.segment;
    const int first = (p.gated ? (int)blockIdx.x : at.block) * wanted;
    const int count = min((p.segment[segment].rows + 15) / 16 - first, wanted);
    return {segment, first, p.gated ? 2 * count : count};
}

// Columns whose image is there. The first records are asked for before the kernel that makes it has ended.
template <class F, int C>
DEVICE void run(const MatmulParams& p, const Shared<C>& shared) {
    depend_launch();
    if (p.experts) depend_wait();
    const ColumnTile columns = column_tile(p, C);
    if (columns.first >= columns.end) return;  // only of experts, which have waited
    const int seq = C == 1 && p.seq ? p.seq[columns.first] : 0;
    const Tiles tiles = tiles_of(p);
    const Records<F> at(p, tiles, columns);
    const typename F::Held w = at.load();
    if (HAS_DEPENDENT_LAUNCH) prefetch_records(p, tiles, columns, F::RECORD, at.in_row);
    if constexpr (F::GRID) bring_grid<F>(grid_memory<F>(), p.weight_grid);
    depend_wait();
    if (seq < 0) return;
    if constexpr (F::GRID) block_sync();  // the grid is there
    if (F::BLOCK >= CHUNK || p.k % CHUNK == 0) {
        multiply<F, C, 1>(p, tiles, columns, shared, p.image, at, w);
    } else {
        multiply<F, C, 0>(p, tiles, columns, shared, p.image, at, w);
    }
}

// The image of one column in shared memory, in whole chunks.
DEVICE QuantizedActivations image_in(signed char* memory, int k) {
    const int padded = (k + CHUNK - 1) / CHUNK * CHUNK;
    float* const d = (float*)(memory + padded);
    return {memory, d, d + padded / 32};
}

struct NormProductParams {
    MatmulParams product;  // of one column; its image is not used
    NormParams norm;       // of that column: x and x_out apart; seq, index, y and image are not used. Of norm_product_mixed maybe none,
                           // and the same for the columns of experts
};

DEVICE ColumnTile one_column() { return {0, 1, 0, 0, nullptr, nullptr}; }

// Norms the column, whose weights are on their way: its image goes to `memory`, in whole chunks, zeros past k.
template <int KIND>
DEVICE QuantizedActivations norm_column(const NormParams& p, First<2>& first, const Shared<1>& shared, signed char* memory) {
    ask_row<1>(first, p, 0);
    const QuantizedActivations image = image_in(memory, p.n);
    float* const x_out = blockIdx.x ? nullptr : p.x_out;
    norm_row<1, KIND>(p, 0, first, x_out, shared.sums[0], [&](int i, const Quad& normed) { quantize_quads(image, i, normed.v, i < norm_chunks(p.n) * NORM_CHUNK); });
    block_sync();
    return image;
}

// What is read of weights is asked for before the kernel whose results are normed has ended, or while they are on their way.
template <class F>
DEVICE void run(const NormProductParams& p, const Tiles& tiles, const Shared<1>& shared, signed char* memory) {
    depend_launch();
    const int seq = p.product.seq ? *p.product.seq : 0;
    const Records<F> at(p.product, tiles, one_column());
    First<2> first = {TABLE<F> ? uniform_warp() : at.unit};
    ask_weights<1, NORM_RMS>(first, p.norm);
    const typename F::Held w = at.load();
    prefetch_records(p.product, tiles, one_column(), F::RECORD, at.in_row);
    if constexpr (F::GRID) bring_grid<F>(grid_memory<F>(), p.product.weight_grid);
    depend_wait();
    if (seq < 0) return;
    const QuantizedActivations image = norm_column<NORM_RMS>(p.norm, first, shared, memory);
    multiply<F, 1, 1>(p.product, tiles, one_column(), shared, image, at, w);
}

// Of a kernel that norms its column: most warps of a block, nine where weights need few registers (of Gemma's nine chunks every warp
// norms one), and blocks on a multiprocessor that registers leave room for.
template <class F>
constexpr int NORM_WARPS = LIGHT<F> ? MOST_NORM_WARPS + 1 : MOST_NORM_WARPS;
template <class F>
constexpr int NORM_BLOCKS = FEW_REGISTERS<F> ? 1 : 2;

#define SHARED_SUMS(C)                                        \
    SHARED(float, sums, [2][Shape<C>::CHUNKS * Shape<C>::SUMS]); \
    SHARED(float, totals, [Shape<C>::TOTALS])

// The kernels of a format: all segments are in it.
#define PRODUCT(number, name, F)                                                                                       \
    extern "C" __global__ void __launch_bounds__(32 * MOST_WARPS, 1) product_1_##name(const MatmulParams p) {        \
        SHARED_SUMS(1);                                                                                                \
        run<F, 1>(p, {sums, totals});                                                                                  \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(32 * 12, 1) product_8_##name(const MatmulParams p) {                 \
        SHARED_SUMS(8);                                                                                                \
        run<F, 8>(p, {sums, totals});                                                                                  \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(32 * 8, 1) product_16_##name(const MatmulParams p) {                 \
        SHARED_SUMS(16);                                                                                               \
        run<F, 16>(p, {sums, totals});                                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS<F>, NORM_BLOCKS<F>) norm_product_##name(const NormProductParams p) { \
        SHARED_SUMS(1);                                                                                                \
        DYN_SHARED(signed char, image);                                                                                \
        run<F>(p, tiles_of(p.product), {sums, totals}, image);                                                         \
    }
