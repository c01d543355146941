// Attention over the paged cache, on tensor cores with f32 accuracy: what the kernels of prompts (attention.cu) and of rows that go
// one by one (attention_rows.cu) share, their arithmetic above all.
//
// f16 operands would cost three digits, so queries and weights go through the tensor cores as the sum of two
// f16 numbers; keys and values are f16 already, or int8 (exact in f16) whose scales are applied outside.
//
// A query's arithmetic is fixed by its position. What it sees falls into at most MAX_PARTS parts of 64·2^n positions, at
// multiples of that. A part starts from nothing and takes tiles of KEYS absolute positions in order; parts join in
// order. A tile that a query does not see changes nothing, to the bit. So a token has the same bits in decoding and in a
// prompt, wherever that is cut, whatever the number of splits.
#pragma once
#include "image.cuh"
#include "rope.cuh"

enum { MAX_PARTS = 64 };

struct AttentionParams {
    const float* q;  // [rows][n_head][head_dim]; not read where there is a rope
    const int* pos;  // [rows]
    const int* seq;  // [rows]: rows with seq < 0 are skipped
    Cache cache;
    float* out;         // [rows][n_head][head_dim], or null
    QuantizedActivations image;        // the same for quantized matmuls (head_dim a multiple of 32), or null
    float* partial;     // [rows][n_head][parts][head_dim] not yet divided, where splits > 1
    float* state;       // [rows][n_head][parts][2] maximum and sum
    unsigned* tickets;  // [rows][gridDim.x], zero between launches
    int rows;
    int n_head, n_head_kv;
    int group;           // query heads of a kv head
    int head_dim;        // a multiple of 16, of 32 beyond 256
    int heads_per_tile;  // query heads in a tile: those of a kv head, or as many as fit
    int rows_per_tile;   // 1 where rows go one by one
    int tiles_of_kv;     // tiles of the query heads of a kv head
    int place_factor;    // ⌈2^16 / heads_per_tile⌉: what a query's number is multiplied by instead of being divided
    int splits;          // blocks that share the parts of a row
    int parts;           // that there is room for: those of every row, where splits > 1
    int window;          // positions that a row sees, its own included; 0: all
    float scale;
    float softcap;  // 0: none
    float growth;   // queries are multiplied by 1 + growth·ln(1 + ⌊position / grows_every⌋); 0: they are not
    int grows_every;
    int gate_step;  // elements from head to head of gate
    const float* gate;  // [rows][n_head][gate_step], of which the first head_dim: the output is multiplied by their sigmoids; or null
    const float* sinks;  // [n_head]: a score of each head that weighs and has no value; or null
    RopeKvParams rope;  // what is to be done with q, k and v before; rope.q null: nothing, it is done. Needs rows_per_tile 1
};

// What kernels have in common for heads of up to DIM elements (64, 128, 256 or 512), with keys and values in f16 or q8_0.
template <int DIM_, int Q8_>
struct Heads {
    static constexpr int DIM = DIM_, Q8 = Q8_;
    static constexpr int KEYS = DIM > 256 ? 16 : 32;  // of a tile
    static constexpr int STRIDE = DIM + 8;            // f16 elements: rows fall into different banks
    static constexpr int BLOCKS = DIM / 32;           // q8_0 blocks of a token
};

// Where things are in shared memory.
struct Shared {
    unsigned short *q_high, *q_low;  // [ROWS][STRIDE]
    float* out;                      // [ROWS][STRIDE] where the queries were
    unsigned short *k, *v;           // [STEP][STRIDE]
    float* scores;                   // [ROWS][SCORE_STRIDE]
    float *k_scale, *v_scale;        // [STEP][BLOCKS], q8_0 only
    float *factor, *sum;             // [ROWS] on the scores of each query; of its weights, at the end
};

// A query of a block: its row (-1: there is none), head, first and last position.
struct Query {
    int row, head, first, last;
};

// Rows of one sequence within a tile, in the order of their positions, and the positions that any of them sees.
struct Run {
    int seq, from, to;  // rows from..to
    int first, last;    // positions, both included
};

// The first position that a row at `last` sees.
DEVICE int first_seen(const AttentionParams& p, int last) {
    return p.window > 0 && last >= p.window ? last - p.window + 1 : 0;
}

// Steps of a part of what a row sees, as a power of two.
template <class V>
DEVICE int part_shift(int first, int last) {
    int shift = V::STEP == PAGE ? 0 : V::STEP == PAGE / 2 ? 1 : 2;
    while ((last / V::STEP >> shift) - (first / V::STEP >> shift) >= MAX_PARTS) shift++;
    return shift;
}

// Two numbers as the sums of two f16 each: the first has the bits of a number that f16 has, too.
DEVICE void split(float a, float b, unsigned* high, unsigned* low) {
    const float a_high = __uint_as_float(__float_as_uint(a) & 0xffffe000u), b_high = __uint_as_float(__float_as_uint(b) & 0xffffe000u);
    *high = pack_f16(a_high, b_high);
    *low = pack_f16(a - a_high, b - b_high);
}

// The kv head of this block, and which tile of its query heads.
DEVICE int2 head_tile(const AttentionParams& p) {
    const int i = blockIdx.x;
    if (p.tiles_of_kv == 1) return {i, 0};
    return {i / p.tiles_of_kv, i % p.tiles_of_kv};
}

// A query at `last` as two f16 numbers, scaled by a power of two so that neither loses digits.
template <class V>
DEVICE void store_query(const AttentionParams& p, const Shared& s, int m, int last, const Quad (&x)[QUADS_OF<V::DIM>]) {
    float largest = 0.0f;
    for (const Quad& q : x) {
        for (int j = 0; j < 4; j++) largest = fmaxf(largest, fabsf(q.v[j]));
    }
    unsigned exponent = __float_as_uint(warp_max(largest)) >> 23;
    exponent -= exponent > 253;  // `shrink` is normal
    const float shrink = __uint_as_float((254 - exponent) << 23);
#pragma unroll
    for (int n = 0; n < QUADS_OF<V::DIM>; n++) {
        const int i = 128 * n + 4 * lane();
        if (i >= V::DIM) continue;
        const float* v = x[n].v;
        uint2 high, low;
        split(product(v[0], shrink), product(v[1], shrink), &high.x, &low.x);
        split(product(v[2], shrink), product(v[3], shrink), &high.y, &low.y);
        *(uint2*)(s.q_high + m * V::STRIDE + i) = high;
        *(uint2*)(s.q_low + m * V::STRIDE + i) = low;
    }
    if (lane() == 0) {
        float scale = p.scale;
        if (p.growth != 0.0f) scale *= fmaf(p.growth, logf((float)(1 + last / p.grows_every)), 1.0f);
        s.factor[m] = product(__uint_as_float(exponent << 23), scale);
    }
}

// The positions of a step: the first, and its slot in the pools.
struct Tile {
    int start;
    size_t slot;
};

template <class V>
DEVICE Tile locate(const AttentionParams& p, const Run& run, int step) {
    const int start = step * V::STEP;
    return {start, cache_slot(p.cache, run.seq, start, head_tile(p).x, p.n_head_kv)};
}

// Sixteen bytes of it to shared memory; int8 become f16.
template <class V>
DEVICE void place(unsigned short* to, uint4 x) {
    if constexpr (V::Q8) {
        unsigned in[4] = {x.x, x.y, x.z, x.w}, out[8];
        for (int i = 0; i < 4; i++) {
            int w = (int)in[i];
            out[2 * i] = pack_f16((float)(signed char)w, (float)(signed char)(w >> 8));
            out[2 * i + 1] = pack_f16((float)(signed char)(w >> 16), (float)(w >> 24));
        }
        ((uint4*)to)[0] = {out[0], out[1], out[2], out[3]};
        ((uint4*)to)[1] = {out[4], out[5], out[6], out[7]};
    } else {
        *(uint4*)to = x;
    }
}

// Brings keys or values of a step into shared memory. Positions that no row of the run sees are not read: nobody
// has written them, or somebody else has. Position `own` is left alone: somebody puts it there. Where the copy goes through
// registers, all loads come before the stores.
template <class V>
DEVICE void fetch(const AttentionParams& p, const Run& run, Tile tile, int own, unsigned short* to, const void* plane) {
    constexpr int BYTES = V::Q8 ? 1 : 2, PER_KEY = V::DIM * BYTES / 16;  // threads that share a position
    constexpr int KEYS = V::THREADS / PER_KEY, PIECES = V::STEP / KEYS;
    int key = threadIdx.x / PER_KEY, d = threadIdx.x % PER_KEY * (16 / BYTES);
    if (d >= p.head_dim) return;
    const unsigned char* from = (const unsigned char*)plane + BYTES * ((tile.slot + key) * (unsigned)p.head_dim + d);
    to += key * V::STRIDE + d;
    uint4 piece[PIECES];
    for (int i = 0; i < PIECES; i++) {
        int position = tile.start + key + i * KEYS, valid = position >= run.first && position <= run.last && position != own;
        const void* source = from + BYTES * i * KEYS * p.head_dim;
        if constexpr (HAS_CP_ASYNC && !V::Q8) {
            if (position != own) cp_async16(to + i * KEYS * V::STRIDE, source, valid);
        } else {
            piece[i] = valid ? *(const uint4*)source : uint4{0, 0, 0, 0};
        }
    }
    if constexpr (!HAS_CP_ASYNC || V::Q8) {
        for (int i = 0; i < PIECES; i++) {
            if (tile.start + key + i * KEYS != own) place<V>(to + i * KEYS * V::STRIDE, piece[i]);
        }
    }
}

// The scales of the same.
template <class V>
DEVICE void fetch_scales(const AttentionParams& p, const Run& run, Tile tile, int own, float* to, const unsigned short* plane) {
    int blocks = (p.head_dim + CACHE_BLOCK - 1) / CACHE_BLOCK;
    for (int i = threadIdx.x; i < V::SCALES; i += V::THREADS) {
        int key = i / V::BLOCKS, block = i % V::BLOCKS, position = tile.start + key;
        int valid = block < blocks && position >= run.first && position <= run.last;
        if (position != own) to[i] = valid ? f16_to_f32(plane[(tile.slot + key) * blocks + block]) : 0.0f;
    }
}

enum { NO_POSITION = -1 };

template <class V>
DEVICE void fetch_keys(const AttentionParams& p, const Run& run, Tile tile, const Shared& s, int own = NO_POSITION) {
    if constexpr (V::Q8) fetch_scales<V>(p, run, tile, own, s.k_scale, p.cache.k_scale);
    fetch<V>(p, run, tile, own, s.k, p.cache.k);
}

template <class V>
DEVICE void fetch_values(const AttentionParams& p, const Run& run, Tile tile, const Shared& s, int own = NO_POSITION) {
    if constexpr (V::Q8) fetch_scales<V>(p, run, tile, own, s.v_scale, p.cache.v_scale);
    fetch<V>(p, run, tile, own, s.v, p.cache.v);
}

// Scores take dimensions by 32: where only 16 are left, the rest of the keys is zero.
template <class V>
DEVICE void clear_rest(const AttentionParams& p, const Shared& s) {
    if (p.head_dim % 32 == 0) return;
    for (int i = threadIdx.x; i < V::STEP * 16; i += V::THREADS) s.k[i / 16 * V::STRIDE + p.head_dim + i % 16] = 0;
}

// Where a lane of a warp stands: its row tile, its share of it, and its place in the fragments of an mma (rows
// `group` and `group + 8` of the tile, columns `2·pair` and `2·pair + 1` of eight).
struct Role {
    int row_tile, share, group, pair;
};

// What a warp carries from tile to tile.
template <class V>
struct Output {
    float sum[V::SLICES][2][4];              // Σ weight·value: 16 dimensions, 16 queries
    float max[V::HALVES], total[V::HALVES];  // of rows `group` and `group + 8`; `total` of a part is this lane's alone
};

// Nothing yet.
template <class V>
DEVICE Output<V> nothing() {
    Output<V> o = {};
    for (float& max : o.max) max = -INFINITY;
    return o;
}

// Factors on two sums that are joined, each in units of 2^its maximum.
DEVICE float2 join(float* max, float other) {
    float joined = fmaxf(*max, other), base = joined == -INFINITY ? 0.0f : joined;
    float2 factor = {fast_exp2(*max - base), fast_exp2(other - base)};
    *max = joined;
    return factor;
}

DEVICE float joined(float before, float part, float2 factor) { return fmaf(before, factor.x, product(part, factor.y)); }

// Products of 32 dimensions of a row tile's queries, both terms of them, with eight keys: `of_high` and `of_low`, to be added.
template <class V>
struct QueryFragments {
    unsigned a[V::HALVES][2][4];  // of the high terms, then of the low ones; where there are eight queries, both in one tile of 16
    __device__ __forceinline__ QueryFragments(const unsigned short* high, const unsigned short* low) {
        for (int i = 0; i < 2; i++) {
            if constexpr (V::HALVES == 2) {
                const int at = (lane() & 15) * V::STRIDE + 8 * (lane() >> 4) + 16 * i;
                ldmatrix_x4(a[0][i], high + at);
                ldmatrix_x4(a[1][i], low + at);
            } else {
                ldmatrix_x4(a[0][i], (lane() & 8 ? low : high) + (lane() & 7) * V::STRIDE + 8 * (lane() >> 4) + 16 * i);
            }
        }
    }
    // Sum i of the lane's 2·HALVES: neither term waits for the other, nor for what came before.
    __device__ __forceinline__ void times(const unsigned (&keys)[4], float (&part)[2 * V::HALVES]) const {
        float c[V::HALVES][4] = {};
        for (int i = 0; i < 2; i++) {
            for (int term = V::HALVES - 1; term >= 0; term--) mma_f16_k16(c[term], a[term][i], keys + 2 * i);
        }
        for (int i = 0; i < 2 * V::HALVES; i++) part[i] = sum(c[0][i], V::HALVES == 2 ? c[V::HALVES - 1][i] : c[0][2 + i]);
    }
};

// Scores of a warp's share of the keys, in units of log2, to shared memory; -∞ where the query does not see.
template <class V, class Queries>
DEVICE void score(const AttentionParams& p, const Run& run, int start, const Shared& s, Role at, const Queries& query) {
    float sums[V::KEY_TILES][2 * V::HALVES] = {};
    int first_key = 8 * V::KEY_TILES * at.share;
    if (first_key >= V::STEP) return;
    const unsigned short *high = s.q_high + 16 * at.row_tile * V::STRIDE, *low = s.q_low + 16 * at.row_tile * V::STRIDE;
    const unsigned short* keys = s.k + (first_key + (lane() & 7)) * V::STRIDE + 8 * (lane() >> 3);
#pragma unroll(V::UNROLL)
    for (int d = 0; d < p.head_dim; d += 32) {
        const QueryFragments<V> queries(high + d, low + d);
        for (int n = 0; n < V::KEY_TILES; n++) {
            unsigned b[4];
            ldmatrix_x4(b, keys + 8 * n * V::STRIDE + d);
            float part[2 * V::HALVES];
            queries.times(b, part);
            const float* scale = s.k_scale + (first_key + 8 * n + 2 * at.pair) * V::BLOCKS + d / 32;
            for (int i = 0; i < 2 * V::HALVES; i++) {
                sums[n][i] = V::Q8 ? fmaf(part[i], scale[(i & 1) * V::BLOCKS], sums[n][i]) : sum(sums[n][i], part[i]);
            }
        }
    }
    for (int half = 0; half < V::HALVES; half++) {
        const int m = 16 * at.row_tile + at.group + 8 * half;
        const Query q = query(m);
        const int in_run = q.row >= run.from && q.row < run.to;
        const float factor = s.factor[m];
        for (int n = 0; n < V::KEY_TILES; n++) {
            const int key = first_key + 8 * n + 2 * at.pair;
            for (int i = 0; i < 2; i++) {
                const int position = start + key + i;
                float x = sums[n][2 * half + i] * factor;
                if (p.softcap > 0.0f) x = p.softcap * tanhf(x / p.softcap);
                const int seen = in_run && position >= q.first && position <= q.last;
                s.scores[m * V::SCORE_STRIDE + key + i] = seen ? x * 1.44269504f : -INFINITY;
            }
        }
    }
}

// Weights of a tile in the layout of an mma's first operand, and the factor on what came before it.
template <class V>
struct Weights {
    float of[V::KEYS / 16][8], shrink[V::HALVES];
};

// Reads the scores of a row tile back as weights of the tile that begins with key `from` of the step, and moves the maximum. Weights
// are 256 times too large, which the division at the end cancels: their low halves stay normal f16 numbers.
template <class V>
DEVICE void weigh(const Shared& s, Role at, int from, Output<V>& o, Weights<V>& weights) {
    const float* scores = s.scores + (16 * at.row_tile + at.group) * V::SCORE_STRIDE + 2 * at.pair + from;
    float most[V::HALVES];
    for (float& m : most) m = -INFINITY;
    for (int k = 0; k < V::KEYS / 16; k++) {
        for (int j = 0; j < 4; j++) {
            const int r = j & 1;
            if (r >= V::HALVES) continue;
            const float2 x = *(const float2*)(scores + 8 * r * V::SCORE_STRIDE + 16 * k + 8 * (j >> 1));
            weights.of[k][2 * j] = x.x;
            weights.of[k][2 * j + 1] = x.y;
            most[r] = fmaxf(most[r], fmaxf(x.x, x.y));
        }
    }
    float base[V::HALVES];
    for (int r = 0; r < V::HALVES; r++) {
        most[r] = fmaxf(most[r], shuffle_xor(most[r], 1));
        most[r] = fmaxf(most[r], shuffle_xor(most[r], 2));
        const float max = fmaxf(o.max[r], most[r]);
        base[r] = max == -INFINITY ? 0.0f : max;
        // Nothing is left as it is.
        weights.shrink[r] = o.max[r] == -INFINITY ? 1.0f : fast_exp2(o.max[r] - base[r]);
        o.max[r] = max;
        o.total[r] *= weights.shrink[r];
    }
    for (int k = 0; k < V::KEYS / 16; k++) {
        for (int i = 0; i < 8; i++) {
            const int r = i >> 1 & 1;
            if (r >= V::HALVES) continue;
            // Rounded by itself (and exact): of the sum below only total·shrink can be fused.
            float& w = weights.of[k][i];
            w = product(256.0f, fast_exp2(w - base[r]));
            o.total[r] += w;
        }
    }
}

// Adds weight·value of the tile that begins with key `from` of the step, for a warp's share of the dimensions.
template <class V>
DEVICE void accumulate(const AttentionParams& p, const Shared& s, Role at, int from, Output<V>& o, const Weights<V>& weights) {
    const float* shrink = weights.shrink;
    const float(*weight)[8] = weights.of;
    int shrinks = 0;
    for (int r = 0; r < V::HALVES; r++) shrinks |= shrink[r] != 1.0f;
    if (shrinks) {
#pragma unroll
        for (int slice = 0; slice < V::SLICES; slice++) {
            for (int i = 0; i < 8; i++) {
                const int r = i >> 1 & 1;
                if (r < V::HALVES) o.sum[slice][i >> 2][i & 3] *= shrink[r];
            }
        }
    }
#pragma unroll  // `weight` stays in registers
    for (int k = 0; k < V::KEYS / 16; k++) {
        unsigned high[4] = {0, 0, 0, 0}, low[4] = {0, 0, 0, 0};
        if constexpr (!V::Q8) {
            for (int i = 0; i < 4; i++) {
                if ((i & 1) < V::HALVES) split(weight[k][2 * i], weight[k][2 * i + 1], &high[i], &low[i]);
            }
        }
#pragma unroll
        for (int slice = 0; slice < V::SLICES; slice++) {
            int d = 16 * (slice * V::SHARES + at.share);
            if (d >= p.head_dim) break;
            if constexpr (V::Q8) {
                const float* scale = s.v_scale + (from + 16 * k + 2 * at.pair) * V::BLOCKS + d / 32;
                for (int i = 0; i < 4; i++) {
                    if ((i & 1) >= V::HALVES) continue;
                    const float* two = scale + 8 * (i >> 1) * V::BLOCKS;
                    split(weight[k][2 * i] * two[0], weight[k][2 * i + 1] * two[V::BLOCKS], &high[i], &low[i]);
                }
            }
            unsigned b[4];
            ldmatrix_x4_trans(b, s.v + (from + 16 * k + (lane() & 15)) * V::STRIDE + d + 8 * (lane() >> 4));
            for (int n = 0; n < 2; n++) {
                mma_f16_k16(o.sum[slice][n], low, b + 2 * n);
                mma_f16_k16(o.sum[slice][n], high, b + 2 * n);
            }
        }
    }
}

// The sum of a part's weights, of all lanes that share a row.
template <class V>
DEVICE float total_of(const Output<V>& part, int r) {
    float total = part.total[r];
    total += shuffle_xor(total, 1);
    return total + shuffle_xor(total, 2);
}

// A part joins those before it.
template <class V>
DEVICE void join_part(Output<V>& all, const Output<V>& part, int r, float total) {
    const float2 factor = join(&all.max[r], part.max[r]);
    all.total[r] = joined(all.total[r], total, factor);
#pragma unroll
    for (int slice = 0; slice < V::SLICES; slice++) {
        for (int i = 0; i < 4; i++) {
            float* sum = &all.sum[slice][i >> 1][2 * r + (i & 1)];
            *sum = joined(*sum, part.sum[slice][i >> 1][2 * r + (i & 1)], factor);
        }
    }
}

// A part of row r of a lane begins from nothing.
template <class V>
DEVICE void begin_part(Output<V>& part, int r) {
#pragma unroll
    for (int slice = 0; slice < V::SLICES; slice++) {
        for (int i = 0; i < 4; i++) part.sum[slice][i >> 1][2 * r + (i & 1)] = 0.0f;
    }
    part.max[r] = -INFINITY;
    part.total[r] = 0.0f;
}

// What a row's output is divided by. A sink so far above all scores that its weight is infinite leaves zeros, as it should.
DEVICE float with_sink(const AttentionParams& p, int head, float max, float total) {
    return p.sinks ? sum(total, product(256.0f, fast_exp2(sum(product(p.sinks[head], 1.44269504f), -max)))) : total;
}

// The output of a warp, and the sums of its queries, to shared memory.
template <class V, class Queries>
DEVICE void hand_over(const AttentionParams& p, const Shared& s, Role at, const Output<V>& o, const Queries& query) {
    const int m = 16 * at.row_tile + at.group;
#pragma unroll
    for (int slice = 0; slice < V::SLICES; slice++) {
        const int d = 16 * (slice * V::SHARES + at.share) + 2 * at.pair;
        if (d >= V::DIM) break;
        for (int i = 0; i < 4; i++) {
            if ((i & 1) >= V::HALVES) continue;
            const float* sum = o.sum[slice][i >> 1] + 2 * (i & 1);
            *(float2*)(s.out + (m + 8 * (i & 1)) * V::STRIDE + d + 8 * (i >> 1)) = {sum[0], sum[1]};
        }
    }
    for (int r = 0; r < V::HALVES; r++) {
        const Query q = query(m + 8 * r);
        if (at.share == 0 && at.pair == 0 && q.row >= 0) s.sum[m + 8 * r] = with_sink(p, q.head, o.max[r], o.total[r]);
    }
}

// The result of each query, from where `hand_over` has put it; a warp takes 128 elements at a time.
template <class V, class Queries>
DEVICE void write(const AttentionParams& p, const Shared& s, const Queries& query) {
    constexpr int QUADS = QUADS_OF<V::DIM>;
#pragma unroll 1
    for (int i = warp(); i < V::ROWS * QUADS; i += V::WARPS) {
        const int m = i / QUADS, d = i % QUADS * 128 + 4 * lane(), inside = d < p.head_dim;
        const Query q = query(m);
        if (q.row < 0) continue;
        const size_t head = (size_t)q.row * p.n_head + q.head;
        Quad x = {{0.0f, 0.0f, 0.0f, 0.0f}};
        if (inside) {
            const float factor = inverse(s.sum[m]);
            x = load_quad(s.out + m * V::STRIDE + d);
            for (int j = 0; j < 4; j++) x.v[j] *= factor;
            if (p.gate) {
                const Quad gate = load_quad(p.gate + head * p.gate_step + d);
                for (int j = 0; j < 4; j++) x.v[j] = x.v[j] / (1.0f + expf(-gate.v[j]));
            }
            if (p.out) store_quad(p.out + head * p.head_dim + d, x);
        }
        if (p.image.q) quantize_quads(p.image, head * p.head_dim + d, x.v, inside);
    }
}
