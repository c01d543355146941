// Attention over the paged cache, on tensor cores with f32 accuracy: the arithmetic that the kernels of prompts (attention.cu) and of
// rows that go one by one (attention_rows.cu) share.
//
// f16 operands would cost three digits, so queries and weights go through the tensor cores as the sum of two
// f16 numbers; keys and values are f16 already, or int8 (exact in f16) whose scales are applied outside.
//
// A query's arithmetic is fixed by its position. What it sees falls into at most MAX_PARTS parts of 64·2^n positions, at
// multiples of that. A part starts from nothing and takes tiles of KEYS absolute positions in order; parts join in
// order. A tile that a query does not see changes nothing, to the bit. So a token has the same bits in decoding and in a
// prompt, wherever that is cut, whatever the number of splits.
#pragma once
#include "attention_tiles.cuh"

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
        if constexpr (V::HALVES == 2) {
            mma_f16_k16({{c[1], a[1][0], keys}, {c[0], a[0][0], keys}, {c[1], a[1][1], keys + 2}, {c[0], a[0][1], keys + 2}});
        } else {
            mma_f16_k16({{c[0], a[0][0], keys}, {c[0], a[0][1], keys + 2}});
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
        const float max = fmaxf(o.max[r], group_max<4>(most[r]));
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
            if (d >= p.value_dim) break;
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
            float(*to)[4] = o.sum[slice];
            mma_f16_k16({{to[0], low, b}, {to[0], high, b}, {to[1], low, b + 2}, {to[1], high, b + 2}});
        }
    }
}

// The sum of a part's weights, of all lanes that share a row.
template <class V>
DEVICE float total_of(const Output<V>& part, int r) {
    return group_sum<4>(part.total[r]);
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
        if (d >= V::VALUE_DIM) break;
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
    constexpr int QUADS = QUADS_OF<V::VALUE_DIM>;
#pragma unroll 1
    for (int i = warp(); i < V::ROWS * QUADS; i += V::WARPS) {
        const int m = i / QUADS, d = i % QUADS * 128 + 4 * lane(), inside = d < p.value_dim;
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
            if (p.out) store_quad(p.out + head * p.value_dim + d, x);
        }
        if (p.image.q) quantize_quads(p.image, head * p.value_dim + d, x.v, inside);
    }
}
