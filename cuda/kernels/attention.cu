// Attention of the rows of prompts: a tile is the query heads of one key/value head for some consecutive rows of the chunk, up to
// 16·ROW_TILES queries.
//
// Four warps, eight for heads beyond 128: a warp has one row tile of 16 queries and, of each tile of KEYS positions, its share of the
// scores and then its share of the output's dimensions; scores travel through shared memory in between.
//
// Grid: key/value heads (times the tiles that their query heads need) × ceil(rows / rows_per_tile) blocks of 128 threads (256). Shared
// memory: Variant::BYTES, 16 to 78 KB, and 32 bytes per query. Moves the keys and values that a tile sees once per tile:
// 4·head_dim bytes per position in f16, 2.125·head_dim in q8_0; of latent attention half of that.
#include "ptx.cuh"

#include "attention.cuh"

// Of a block: as many as registers need for the output of heads of up to DIM elements.
#define ATTENTION_THREADS(DIM) ((DIM) > 128 ? 256 : 128)

// Sizes and places of one variant. TILES: that have room at once. Of heads beyond 256 the 64 KB of an sm_75 hold the queries and one
// tile of positions: keys, then values, lie in the same place.
template <int DIM, int ROW_TILES, int Q8, int TILES_ = (DIM <= 256 || DIM > 512 && HAS_CP_ASYNC ? 2 : 1)>
struct Variant : Heads<DIM, Q8> {
    using H = Heads<DIM, Q8>;
    static constexpr int ROWS = 16 * ROW_TILES, HALVES = 2, HAS_OWN = 0;
    static constexpr int THREADS = ATTENTION_THREADS(DIM), WARPS = THREADS / 32;
    static constexpr int STEP = H::KEYS;
    static constexpr int TILES = TILES_;
    static constexpr int SHARES = WARPS / ROW_TILES;  // warps that share a row tile
    static constexpr int KEY_TILES = STEP / 8 < SHARES ? 1 : STEP / 8 / SHARES;  // of 8 keys, per warp that has some
    static constexpr int SLICES = H::VALUE_DIM / 16 / SHARES;  // of 16 output dimensions, per warp
    static constexpr int SCORE_STRIDE = STEP + 8;
    static constexpr int UNROLL = ROWS == 16 && !Q8 ? 2 : 1;
    static constexpr int RESIDENT = DIM > 128 ? 1 : 2;  // blocks per multiprocessor that registers allow
    static constexpr int SCALES = Q8 ? STEP * H::BLOCKS : 0;
    // Dynamic shared memory in bytes, in this order.
    static constexpr int QUERIES = 2 * 2 * ROWS * H::STRIDE, TILE = 2 * STEP * H::STRIDE, SCORES = 4 * ROWS * SCORE_STRIDE;
    static constexpr int BYTES = QUERIES + TILES * TILE + SCORES + 2 * 4 * SCALES;
};

// What there is to be known of each query of a tile, in shared memory; `part`: log2 of the steps of a part.
struct Placed {
    int *row, *head, *first, *last, *part;
    __device__ __forceinline__ Query operator()(int m) const { return {row[m], head[m], first[m], last[m]}; }
};

// The first and the last position that a row sees.
DEVICE int2 seen(const AttentionParams& p, int row) {
    const int at = p.pos[row];
    if (!p.end) return {first_seen(p, at), at};
    const int last = p.end[row] - 1, half = p.window > 0 ? p.window / 2 : last;
    return {max(at - half, 0), min(at + half, last)};
}

// The rows from `from` on that are of one sequence.
DEVICE Run find_run(const AttentionParams& p, int from, int end) {
    const int seq = p.seq[from];
    const int2 first = seen(p, from);
    Run run = {seq, from, from + 1, first.x, first.y};
    for (; run.to < end && p.seq[run.to] == seq; run.to++) run.last = seen(p, run.to).y;
    return run;
}

// Finds each query of the tile.
template <class V>
DEVICE void place_queries(const AttentionParams& p, const Shared& s, const Placed& to) {
    const int m = threadIdx.x;
    if (m >= V::ROWS) return;
    const int2 tile = head_tile(p);
    const int token = m * p.place_factor >> 16, row = blockIdx.y * p.rows_per_tile + token;
    const int in_group = tile.y * p.heads_per_tile + m - token * p.heads_per_tile;
    const int live = token < p.rows_per_tile && in_group < p.group && row < p.rows && p.seq[row] >= 0;
    const int2 positions = live ? seen(p, row) : int2{0, -1};
    to.row[m] = live ? row : -1;
    to.head[m] = tile.x * p.group + in_group;
    to.first[m] = positions.x;
    to.last[m] = positions.y;
    to.part[m] = part_shift<V>(positions.x, positions.y);
    s.factor[m] = 0.0f;
}

template <class V>
DEVICE void load_queries(const AttentionParams& p, const Shared& s, const Placed& query) {
    for (int m = warp(); m < V::ROWS; m += V::WARPS) {
        Quad x[QUADS_OF<V::DIM>];
        const int row = max(query.row[m], 0);
        load_quads(x, p.q + ((size_t)row * p.n_head + query.head[m]) * p.head_dim, query.row[m] < 0 ? 0 : p.head_dim);
        store_query<V>(p, s, m, query.last[m], x);
    }
}

// After a tile: parts that end with it, or all at the last one, join those before them.
template <class V>
DEVICE void end_parts(const Placed& query, Role at, int tile, int last, Output<V>& part, Output<V>& all) {
    int ends[2];
    for (int r = 0; r < 2; r++) {
        ends[r] = last || ((tile + 1) & ((1 << query.part[16 * at.row_tile + at.group + 8 * r]) - 1)) == 0;
    }
    if (!ballot(ends[0] | ends[1])) return;
    for (int r = 0; r < 2; r++) {
        const float total = total_of(part, r);
        if (!ends[r]) continue;
        join_part(all, part, r, total);
        begin_part(part, r);
    }
}

// All tiles of a run; the keys of the first are on their way. Where two tiles have room copies run ahead
// of their use: values of a tile while its scores are computed, keys of the next tile while the values are added.
template <class V>
DEVICE void attend(const AttentionParams& p, const Run& run, Tile tile, Shared& s, const Placed& query, Role at, Output<V>& all) {
    Output<V> part = nothing<V>();
    const int end = run.last / V::STEP + 1;
#pragma unroll 1
    for (int i = run.first / V::STEP; i < end; i++) {
        cp_async_wait<0>();
        block_sync();
        if constexpr (V::TILES == 2) fetch_values<V>(p, run, tile, s);
        cp_async_commit();
        Tile next = i + 1 < end ? locate<V>(p, run, i + 1) : tile;
        score<V>(p, run, tile.start, s, at, query);
        block_sync();
        if constexpr (V::LATENT && V::TILES == 2) s.take_turns();
        if constexpr (V::TILES == 1) {
            fetch_values<V>(p, run, tile, s);
        } else if (i + 1 < end) {
            fetch_keys<V>(p, run, next, s);
        }
        cp_async_commit();
        Weights<V> weights;
        weigh(s, at, 0, part, weights);
        cp_async_wait<V::TILES - 1>();
        block_sync();
        accumulate(p, s, at, 0, part, weights);
        end_parts<V>(query, at, i, i + 1 == end, part, all);
        if (V::TILES == 1 && i + 1 < end) {
            block_sync();
            fetch_keys<V>(p, run, next, s);
            cp_async_commit();
        }
        tile = next;
    }
}

template <class V>
DEVICE void attention(const AttentionParams& p) {
    DYN_SHARED(uint4, arena);
    SHARED(int, which, [5][V::ROWS]);
    SHARED(float, numbers, [2][V::ROWS]);
    const Placed query = {which[0], which[1], which[2], which[3], which[4]};
    Shared s;
    unsigned char* bytes = (unsigned char*)arena;
    s.q_high = (unsigned short*)bytes;
    s.q_low = s.q_high + V::ROWS * V::STRIDE;
    s.out = (float*)bytes;
    s.k = (unsigned short*)(bytes + V::QUERIES);
    s.v = s.k + (V::TILES - 1) * V::STEP * V::STRIDE;
    s.scores = (float*)(bytes + V::QUERIES + V::TILES * V::TILE);
    s.k_scale = s.scores + V::ROWS * V::SCORE_STRIDE;
    s.v_scale = s.k_scale + (V::LATENT ? V::TILES - 1 : 1) * V::SCALES;
    s.factor = numbers[0], s.sum = numbers[1];

    if constexpr (V::TILES == 2 || V::LATENT) clear_rest<V>(p, s);
    const Role at = {warp() / V::SHARES, warp() % V::SHARES, lane() >> 2, lane() & 3};
    Output<V> o = nothing<V>();

    // Positions and sequences are those of the step: no kernel of it has written them.
    const int begin = blockIdx.y * p.rows_per_tile, end = min(begin + p.rows_per_tile, p.rows);
    int loaded = 0;
    for (int row = begin; row < end;) {
        const Run run = find_run(p, row, end);
        row = run.to;
        if (run.seq < 0) continue;
        if (!loaded) {
            place_queries<V>(p, s, query);
            depend_wait();
            depend_launch();
            block_sync();
            load_queries<V>(p, s, query);
        }
        if (V::TILES == 1) block_sync();  // keys lie where values of the run before lay
        loaded = 1;
        const Tile tile = locate<V>(p, run, run.first / V::STEP);
        fetch_keys<V>(p, run, tile, s);
        cp_async_commit();
        attend<V>(p, run, tile, s, query, at, o);
    }
    if (!loaded) {
        depend_wait();
        return;
    }
    hand_over<V>(p, s, at, o, query);
    block_sync();
    write<V>(p, s, query);
}

// X(attention_TYPE_DIM_ROWS, its Variant): at most DIM elements per head, tiles of ROWS queries.
#define ATTENTIONS(X) \
    X(attention_f16_64_64, 64, 4, 0) \
    X(attention_f16_128_32, 128, 2, 0) \
    X(attention_f16_256_16, 256, 1, 0) \
    X(attention_f16_512_16, 512, 1, 0) \
    X(attention_f16_576_16, 576, 1, 0) \
    X(attention_q8_0_64_64, 64, 4, 1) \
    X(attention_q8_0_128_32, 128, 2, 1) \
    X(attention_q8_0_256_16, 256, 1, 1) \
    X(attention_q8_0_512_16, 512, 1, 1) \
    X(attention_q8_0_576_16, 576, 1, 1)

#define KERNEL(NAME, DIM, ...)                                                                                \
    extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS(DIM), Variant<DIM, __VA_ARGS__>::RESIDENT)     \
        NAME(const AttentionParams p) {                                                                          \
        attention<Variant<DIM, __VA_ARGS__>>(p);                                                                 \
    }
ATTENTIONS(KERNEL)
#undef KERNEL
