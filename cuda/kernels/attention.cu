// Attention over the paged cache, for decode and prefill: see attention.cuh for how the work is divided.
#include "ptx.cuh"

#include "attention.cuh"

// Where a lane of a warp stands: its row tile, its share of it, and its place in the fragments of an mma (rows
// `group` and `group + 8` of the tile, columns `2·pair` and `2·pair + 1` of eight).
struct Role {
    int row_tile, share, group, pair;
};

// What a warp carries from tile to tile.
template <class V>
struct Output {
    float sum[V::SLICES][2][4];  // Σ weight·value: 16 dimensions, 16 queries
    float max[2], total[2];      // of rows `group` and `group + 8`; `total` of a part is this lane's alone
};

// Factors on two sums that are joined, each in units of 2^its maximum.
DEVICE float2 join(float* max, float other) {
    float joined = fmaxf(*max, other), base = joined == -INFINITY ? 0.0f : joined;
    float2 factor = {fast_exp2(*max - base), fast_exp2(other - base)};
    *max = joined;
    return factor;
}

DEVICE float joined(float before, float part, float2 factor) { return fmaf(before, factor.x, product(part, factor.y)); }

// Scores of a warp's share of the keys, in units of log2, to shared memory; -∞ where the query does not see.
template <class V>
DEVICE void score(const AttentionParams& p, const Run& run, int start, const Shared<V>& s, Role at) {
    float sums[V::KEY_TILES][4] = {};
    int first_key = 8 * V::KEY_TILES * at.share;
    if (first_key >= V::KEYS) return;
    const unsigned short* high = s.q_high + (16 * at.row_tile + (lane() & 15)) * V::STRIDE + 8 * (lane() >> 4);
    const unsigned short* low = high + (s.q_low - s.q_high);
    const unsigned short* keys = s.k + (first_key + (lane() & 7)) * V::STRIDE + 8 * (lane() >> 3);
#pragma unroll(V::ROWS == 16 && !V::Q8 ? 2 : 1)
    for (int d = 0; d < p.head_dim; d += 32) {
        unsigned h[2][4], l[2][4];
        for (int i = 0; i < 2; i++) {
            ldmatrix_x4(h[i], high + d + 16 * i);
            ldmatrix_x4(l[i], low + d + 16 * i);
        }
        for (int n = 0; n < V::KEY_TILES; n++) {
            unsigned b[4];
            ldmatrix_x4(b, keys + 8 * n * V::STRIDE + d);
            // Neither waits for the other, nor for what came before.
            float of_high[4] = {}, of_low[4] = {};
            for (int i = 0; i < 2; i++) {
                mma_f16_k16(of_low, l[i], b + 2 * i);
                mma_f16_k16(of_high, h[i], b + 2 * i);
            }
            const float* scale = s.k_scale + (first_key + 8 * n + 2 * at.pair) * V::BLOCKS + d / 32;
            for (int i = 0; i < 4; i++) {
                const float part = sum(of_high[i], of_low[i]);
                sums[n][i] = V::Q8 ? fmaf(part, scale[(i & 1) * V::BLOCKS], sums[n][i]) : sum(sums[n][i], part);
            }
        }
    }
    for (int half = 0; half < 2; half++) {
        int m = 16 * at.row_tile + at.group + 8 * half;
        int in_run = s.row[m] >= run.from && s.row[m] < run.to, first = s.first[m], last = s.last[m];
        float factor = s.factor[m];
        for (int n = 0; n < V::KEY_TILES; n++) {
            int key = first_key + 8 * n + 2 * at.pair;
            for (int i = 0; i < 2; i++) {
                int position = start + key + i;
                float x = sums[n][2 * half + i] * factor;
                if (p.softcap > 0.0f) x = p.softcap * tanhf(x / p.softcap);
                int seen = in_run && position >= first && position <= last;
                s.scores[m * V::SCORE_STRIDE + key + i] = seen ? x * 1.44269504f : -INFINITY;
            }
        }
    }
}

// Reads the scores of a row tile back as weights, in the layout of an mma's first operand, and moves the maximum.
// Weights are 256 times too large, which the division at the end cancels: their low halves stay normal f16 numbers.
template <class V>
DEVICE void weigh(const Shared<V>& s, Role at, Output<V>& o, float (*weight)[8], float* shrink) {
    const float* scores = s.scores + (16 * at.row_tile + at.group) * V::SCORE_STRIDE + 2 * at.pair;
    float max[2] = {o.max[0], o.max[1]};
    for (int k = 0; k < V::KEYS / 16; k++) {
        for (int j = 0; j < 4; j++) {
            float2 x = *(const float2*)(scores + 8 * (j & 1) * V::SCORE_STRIDE + 16 * k + 8 * (j >> 1));
            weight[k][2 * j] = x.x;
            weight[k][2 * j + 1] = x.y;
            max[j & 1] = fmaxf(max[j & 1], fmaxf(x.x, x.y));
        }
    }
    float base[2];
    for (int r = 0; r < 2; r++) {
        max[r] = fmaxf(max[r], shuffle_xor(max[r], 1));
        max[r] = fmaxf(max[r], shuffle_xor(max[r], 2));
        base[r] = max[r] == -INFINITY ? 0.0f : max[r];
        // Nothing is left as it is.
        shrink[r] = o.max[r] == -INFINITY ? 1.0f : fast_exp2(o.max[r] - base[r]);
        o.max[r] = max[r];
        o.total[r] *= shrink[r];
    }
    for (int k = 0; k < V::KEYS / 16; k++) {
        for (int i = 0; i < 8; i++) {
            int r = i >> 1 & 1;
            // Rounded by itself (and exact): of the sum below only total·shrink can be fused.
            weight[k][i] = product(256.0f, fast_exp2(weight[k][i] - base[r]));
            o.total[r] += weight[k][i];
        }
    }
}

// Adds weight·value for a warp's share of the dimensions.
template <class V>
DEVICE void accumulate(const AttentionParams& p, const Shared<V>& s, Role at, Output<V>& o,
                       const float (*weight)[8], const float* shrink) {
    if (shrink[0] != 1.0f || shrink[1] != 1.0f) {
        for (int slice = 0; slice < V::SLICES; slice++) {
            for (int i = 0; i < 8; i++) o.sum[slice][i >> 2][i & 3] *= shrink[i >> 1 & 1];
        }
    }
#pragma unroll  // `weight` stays in registers
    for (int k = 0; k < V::KEYS / 16; k++) {
        unsigned high[4], low[4];
        if constexpr (!V::Q8) {
            for (int i = 0; i < 4; i++) split(weight[k][2 * i], weight[k][2 * i + 1], &high[i], &low[i]);
        }
        for (int slice = 0; slice < V::SLICES; slice++) {
            int d = 16 * (slice * V::SHARES + at.share);
            if (d >= p.head_dim) break;
            if constexpr (V::Q8) {
                const float* scale = s.v_scale + (16 * k + 2 * at.pair) * V::BLOCKS + d / 32;
                for (int i = 0; i < 4; i++) {
                    const float* two = scale + 8 * (i >> 1) * V::BLOCKS;
                    split(weight[k][2 * i] * two[0], weight[k][2 * i + 1] * two[V::BLOCKS], &high[i], &low[i]);
                }
            }
            unsigned b[4];
            ldmatrix_x4_trans(b, s.v + (16 * k + (lane() & 15)) * V::STRIDE + d + 8 * (lane() >> 4));
            for (int n = 0; n < 2; n++) {
                mma_f16_k16(o.sum[slice][n], low, b + 2 * n);
                mma_f16_k16(o.sum[slice][n], high, b + 2 * n);
            }
        }
    }
}

// A part of row m to memory: its maximum and sum, and this warp's dimensions.
template <class V>
DEVICE void store_part(const AttentionParams& p, const Shared<V>& s, Role at, int tile, int r, const Output<V>& part, float total) {
    int m = 16 * at.row_tile + at.group + 8 * r, row = s.row[m];
    if (row < 0) return;
    int number = (tile >> s.part[m]) - (s.first[m] / V::KEYS >> s.part[m]);
    size_t to = ((size_t)row * p.n_head + s.head[m]) * p.parts + number;
    for (int slice = 0; slice < V::SLICES; slice++) {
        int d = 16 * (slice * V::SHARES + at.share) + 2 * at.pair;
        if (d >= p.head_dim) break;
        for (int n = 0; n < 2; n++) {
            *(float2*)(p.partial + to * p.head_dim + d + 8 * n) = {part.sum[slice][n][2 * r], part.sum[slice][n][2 * r + 1]};
        }
    }
    if (at.share == 0 && at.pair == 0) *(float2*)(p.state + 2 * to) = {part.max[r], total};
}

// After a tile: parts that end with it, or all at the last one, join those before them. `apart`: they go to memory, where several
// blocks share a row.
template <class V>
DEVICE void end_parts(const AttentionParams& p, const Shared<V>& s, Role at, int tile, int last, int apart, Output<V>& part,
                      Output<V>& all) {
    int ends[2];
    for (int r = 0; r < 2; r++) {
        ends[r] = last || ((tile + 1) & ((1 << s.part[16 * at.row_tile + at.group + 8 * r]) - 1)) == 0;
    }
    if (!ballot(ends[0] | ends[1])) return;
    for (int r = 0; r < 2; r++) {
        float total = part.total[r];
        total += shuffle_xor(total, 1);
        total += shuffle_xor(total, 2);
        if (!ends[r]) continue;
        if (apart) {
            store_part<V>(p, s, at, tile, r, part, total);
        } else {
            float2 factor = join(&all.max[r], part.max[r]);
            all.total[r] = joined(all.total[r], total, factor);
            for (int slice = 0; slice < V::SLICES; slice++) {
                for (int i = 0; i < 4; i++) {
                    float* sum = &all.sum[slice][i >> 1][2 * r + (i & 1)];
                    *sum = joined(*sum, part.sum[slice][i >> 1][2 * r + (i & 1)], factor);
                }
            }
        }
        for (int slice = 0; slice < V::SLICES; slice++) {
            for (int i = 0; i < 4; i++) part.sum[slice][i >> 1][2 * r + (i & 1)] = 0.0f;
        }
        part.max[r] = -INFINITY;
        part.total[r] = 0.0f;
    }
}

// All tiles of a share for the rows of a run; the keys of the first are on their way. Where two tiles have room copies run ahead
// of their use: values of a tile while its scores are computed, keys of the next tile while the values are added.
template <class V>
DEVICE void attend(const AttentionParams& p, const Run& run, Share share, Tile tile, const Shared<V>& s, Role at, int apart,
                   Output<V>& all) {
    Output<V> part = {};
    part.max[0] = part.max[1] = -INFINITY;
#pragma unroll 1
    for (int i = share.begin; i < share.end; i++) {
        cp_async_wait<0>();
        block_sync();
        if constexpr (V::TILES == 2) fetch_values<V>(p, run, tile, s);
        cp_async_commit();
        Tile next = i + 1 < share.end ? locate<V>(p, run, i + 1) : tile;
        score<V>(p, run, tile.start, s, at);
        block_sync();
        if constexpr (V::TILES == 1) {
            fetch_values<V>(p, run, tile, s);
        } else if (i + 1 < share.end) {
            fetch_keys<V>(p, run, next, s);
        }
        cp_async_commit();
        float weight[V::KEYS / 16][8], shrink[2];
        weigh<V>(s, at, part, weight, shrink);
        cp_async_wait<V::TILES - 1>();
        block_sync();
        accumulate<V>(p, s, at, part, weight, shrink);
        end_parts<V>(p, s, at, i, i + 1 == share.end, apart, part, all);
        if (V::TILES == 1 && i + 1 < share.end) {
            block_sync();
            fetch_keys<V>(p, run, next, s);
            cp_async_commit();
        }
        tile = next;
    }
}

// What a row's output is divided by. A sink so far above all scores that its weight is infinite leaves zeros, as it should.
DEVICE float with_sink(const AttentionParams& p, int head, float max, float total) {
    return p.sinks ? sum(total, product(256.0f, fast_exp2(sum(product(p.sinks[head], 1.44269504f), -max)))) : total;
}

// The output of a warp, and the sums of its queries, to shared memory.
template <class V>
DEVICE void hand_over(const AttentionParams& p, const Shared<V>& s, Role at, const Output<V>& o) {
    int m = 16 * at.row_tile + at.group;
    for (int slice = 0; slice < V::SLICES; slice++) {
        int d = 16 * (slice * V::SHARES + at.share) + 2 * at.pair;
        for (int i = 0; i < 4; i++) {
            const float* sum = o.sum[slice][i >> 1] + 2 * (i & 1);
            *(float2*)(s.out + (m + 8 * (i & 1)) * V::STRIDE + d + 8 * (i >> 1)) = {sum[0], sum[1]};
        }
    }
    for (int r = 0; r < 2; r++) {
        if (at.share == 0 && at.pair == 0 && s.row[m + 8 * r] >= 0) {
            s.sum[m + 8 * r] = with_sink(p, s.head[m + 8 * r], o.max[r], o.total[r]);
        }
    }
}

// Joins the parts of each query that the blocks of a row left in memory, as `end_parts` does; to where `hand_over` puts them.
template <class V>
DEVICE void join_parts(const AttentionParams& p, const Shared<V>& s) {
    constexpr int QUADS = QUADS_OF<V::DIM>;
    for (int m = warp(); m < V::ROWS; m += V::WARPS) {
        if (s.row[m] < 0) continue;
        int parts = parts_of<V>(s.first[m], s.last[m]);
        size_t at = ((size_t)s.row[m] * p.n_head + s.head[m]) * p.parts;
        Quad sum[QUADS] = {};
        float max = -INFINITY, total = 0.0f;
#pragma unroll 4
        for (int i = 0; i < parts; i++) {
            float2 state = *(const float2*)(p.state + 2 * (at + i)), factor = join(&max, state.x);
            total = joined(total, state.y, factor);
            Quad part[QUADS];
            load_quads(part, p.partial + (at + i) * p.head_dim, p.head_dim);
            for (int n = 0; n < QUADS; n++) {
                for (int j = 0; j < 4; j++) sum[n].v[j] = joined(sum[n].v[j], part[n].v[j], factor);
            }
        }
        store_quads(s.out + m * V::STRIDE, sum, V::DIM);
        if (lane() == 0) s.sum[m] = with_sink(p, s.head[m], max, total);
    }
    warp_sync();  // a warp keeps to its own queries
}

template <class V>
DEVICE void write(const AttentionParams& p, const Shared<V>& s) {
    for (int m = warp(); m < V::ROWS; m += V::WARPS) {
        if (s.row[m] < 0) continue;
        const float factor = 1.0f / s.sum[m];
        const size_t head = (size_t)s.row[m] * p.n_head + s.head[m];
        for (int n = 0; n < QUADS_OF<V::DIM>; n++) {
            const int d = 128 * n + 4 * lane(), inside = d < p.head_dim;
            Quad x = {{0.0f, 0.0f, 0.0f, 0.0f}};
            if (inside) {
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
}

template <class V>
DEVICE void attention(const AttentionParams& p) {
    DYN_SHARED(uint4, arena);
    SHARED(int, which, [5][V::ROWS]);
    SHARED(float, numbers, [2][V::ROWS]);
    Shared<V> s;
    unsigned char* bytes = (unsigned char*)arena;
    s.q_high = (unsigned short*)bytes;
    s.q_low = s.q_high + V::ROWS * V::STRIDE;
    s.out = (float*)bytes;
    s.k = (unsigned short*)(bytes + V::QUERIES);
    s.v = s.k + (V::TILES - 1) * V::KEYS * V::STRIDE;
    s.scores = (float*)(bytes + V::QUERIES + V::TILES * V::TILE);
    s.k_scale = s.scores + V::ROWS * V::SCORE_STRIDE;
    s.v_scale = s.k_scale + V::SCALES;
    s.row = which[0], s.head = which[1], s.first = which[2], s.last = which[3], s.part = which[4];
    s.factor = numbers[0], s.sum = numbers[1];

    // Positions and sequences are those of the step: no kernel of it has written them.
    int end = blockIdx.y * p.rows_per_tile + p.rows_per_tile;
    if (end > p.rows) end = p.rows;
    Run run = find_run(p, blockIdx.y * p.rows_per_tile, end);
    Share share = share_of<V>(p, run);
    if (run.to == end && share.begin == share.end) {
        depend_wait();
        return;
    }

    // Scores take dimensions by 32: where only 16 are left, the rest of the keys is zero.
    if (V::TILES == 2 && p.head_dim % 32) {
        for (int i = threadIdx.x; i < V::KEYS * 16; i += V::THREADS) {
            s.k[i / 16 * V::STRIDE + p.head_dim + i % 16] = 0;
        }
    }
    Role at = {warp() / V::SHARES, warp() % V::SHARES, lane() >> 2, lane() & 3};
    Output<V> o = {};
    o.max[0] = o.max[1] = -INFINITY;
    // Its splits share a row, which is all of the tile.
    int apart = V::ROWS == 16 && blocks_of<V>(p, run) > 1;

    int loaded = 0;
    for (;;) {
        if (share.begin < share.end) {
            Tile tile = locate<V>(p, run, share.begin);
            const int turns = V::ROWS == 16 && p.rope.q;
            if (!loaded) {
                if (turns) {
                    if (HAS_DEPENDENT_LAUNCH) prefetch_tile<V>(p, tile);
                    turn_heads<V>(p, run, s, p.rope.k && share.end == run.last / V::KEYS + 1);
                } else {
                    place_queries<V>(p, s);
                    depend_wait();
                    depend_launch();
                    block_sync();
                    load_queries<V>(p, s);
                }
            }
            // Some key may be this block's own, and keys may lie where heads were turned, or values of the run before.
            if (turns || V::TILES == 1) block_sync();
            loaded = 1;
            fetch_keys<V>(p, run, tile, s);
            cp_async_commit();
            attend<V>(p, run, share, tile, s, at, apart, o);
        }
        if (run.to == end) break;
        run = find_run(p, run.to, end);
        share = share_of<V>(p, run);
    }
    if (!loaded) {
        depend_wait();
        return;
    }
    if (apart) {
        if (!last_block(p.tickets + blockIdx.y * gridDim.x + blockIdx.x, blocks_of<V>(p, run))) return;
        join_parts<V>(p, s);
    } else {
        hand_over<V>(p, s, at, o);
        block_sync();
    }
    write<V>(p, s);
}

// X(attention_TYPE_DIM_ROWS, its Variant): at most DIM elements per head, tiles of ROWS queries.
#define ATTENTIONS(X) \
    X(attention_f16_64_16, 64, 1, 0) \
    X(attention_f16_64_64, 64, 4, 0) \
    X(attention_f16_128_16, 128, 1, 0) \
    X(attention_f16_128_32, 128, 2, 0) \
    X(attention_f16_256_16, 256, 1, 0) \
    X(attention_f16_512_16, 512, 1, 0) \
    X(attention_q8_0_64_16, 64, 1, 1) \
    X(attention_q8_0_64_64, 64, 4, 1) \
    X(attention_q8_0_128_16, 128, 1, 1) \
    X(attention_q8_0_128_32, 128, 2, 1) \
    X(attention_q8_0_256_16, 256, 1, 1) \
    X(attention_q8_0_512_16, 512, 1, 1)

#define ATTENTION(NAME, DIM, ...)                                                                                \
    extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS(DIM), Variant<DIM, __VA_ARGS__>::RESIDENT)     \
        NAME(const AttentionParams p) {                                                                          \
        attention<Variant<DIM, __VA_ARGS__>>(p);                                                                 \
    }
ATTENTIONS(ATTENTION)
#undef ATTENTION
