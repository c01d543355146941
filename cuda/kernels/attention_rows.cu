// Attention of rows that go one by one, each of a sequence of its own as in decoding: a block has up to eight query heads of one
// key/value head, and some of the parts of what their row sees.
//
// Everything here is waited for: a block is as fast as one of its warps gets through. So a step takes 64 positions at once where there
// is room, every one of eight warps scores eight of them, and what memory has is asked for before the kernel whose results are needed
// has ended.
//
// Where a row goes for itself the blocks also norm and turn its queries, and those with its own position make its key and value, for
// themselves and one of them for the cache.
//
// Grid: key/value heads × tiles of eight of their query heads, × rows × splits blocks of 256 threads. Shared memory: Rows::BYTES, 22 to
// 99 KB. Moves the keys and values that a row sees once per tile: 4·head_dim bytes per position in f16, 2.125·head_dim in q8_0; of
// latent attention half of that.
#include "ptx.cuh"

#include "attention.cuh"

// Sizes and places. HAS_OWN: a block may put the key and value of a position there itself. AT_ONCE: tiles of a step; one where an
// sm_75, with 64 KB, has room for two blocks then (heads of up to 128), or for one at all.
template <int DIM, int Q8, int AT_ONCE_ = (DIM > 64 && !HAS_CP_ASYNC ? 1 : 2)>
struct Rows : Heads<DIM, Q8> {
    using H = Heads<DIM, Q8>;
    static constexpr int AT_ONCE = AT_ONCE_, STEP = AT_ONCE * H::KEYS;
    static constexpr int ROWS = 8, HALVES = 1, HAS_OWN = 1;
    static constexpr int THREADS = 256, WARPS = THREADS / 32, SHARES = WARPS;
    static constexpr int KEY_TILES = 1;                           // of 8 keys, per warp that has some
    static constexpr int SLICES = DIM < 128 ? 1 : H::VALUE_DIM / 16 / SHARES;  // of 16 output dimensions, per warp that has some
    static constexpr int SCORE_STRIDE = STEP + 8;
    static constexpr int UNROLL = DIM > 128 ? 4 : 2;
    static constexpr int SCALES = Q8 ? STEP * H::BLOCKS : 0;
    static constexpr int RESIDENT = DIM > (HAS_CP_ASYNC && !Q8 ? 256 : 128) ? 1 : 2;  // blocks per multiprocessor that registers allow
    // Dynamic shared memory in bytes, in this order.
    static constexpr int QUERIES = 2 * 2 * ROWS * H::STRIDE, TILE = 2 * STEP * H::STRIDE, SCORES = 4 * ROWS * SCORE_STRIDE;
    static constexpr int TURNS = 4 * (H::LATENT ? MAX_TURNING : DIM);
    static constexpr int OWN = (H::LATENT ? 1 : 2) * (2 * H::STRIDE + (Q8 ? 4 * H::BLOCKS : 0));
    static constexpr int BYTES = QUERIES + 2 * TILE + SCORES + TURNS + 2 * 4 * SCALES + OWN;
};

// The queries of a block.
struct RowQueries {
    int row, head, count, first, last;
    __device__ __forceinline__ Query operator()(int m) const { return {m < count ? row : -1, head + m, first, last}; }
};

// The steps begin..end that a block sees to, of `parts` parts of what its row sees, which `blocks` blocks share; `shift`: log2 of the
// steps of a part.
struct Share {
    int begin, end, shift, parts, blocks;
};

template <class V>
DEVICE Share share_of(const AttentionParams& p, const Run& run) {
    const int shift = part_shift<V>(run.first, run.last);
    const int first = run.first / V::STEP, end = run.last / V::STEP + 1, from = first >> shift, parts = (end - 1 >> shift) + 1 - from;
    const int blocks = min(p.splits, parts), block = blockIdx.z;
    if (run.seq < 0 || block >= blocks) return {0, 0, shift, parts, blocks};
    if (blocks == 1) return {first, end, shift, parts, blocks};
    return {max(first, from + parts * block / blocks << shift), min(end, from + parts * (block + 1) / blocks << shift), shift, parts, blocks};
}

// A key or a value goes to a row of shared memory as well.
struct ToShared {
    unsigned short* values;
    float* scales;
    __device__ __forceinline__ void put(int i, uint2 four) const { *(uint2*)(values + i) = four; }
    __device__ __forceinline__ void put_scale(int block, float d) const { scales[block] = d; }
};

// The key and the value of a block's row. No block has them from the cache, where another one may still write them: they wait beside
// the tiles where their step is not the first. Places are bytes of shared memory.
template <class V>
struct Own {
    unsigned char* bytes;
    int key, value, key_scale, value_scale;
    int position;  // NO_POSITION: they are in their place, or another block's
    __device__ __forceinline__ ToShared to(int is_key) const {
        return {(unsigned short*)(bytes + (is_key ? key : value)), (float*)(bytes + (is_key ? key_scale : value_scale))};
    }
    // From where they wait to their place in the last step.
    __device__ __forceinline__ void place(const AttentionParams& p, const Shared& s) const {
        const int at = position % V::STEP, i = threadIdx.x;
        const ToShared k = to(1), v = to(0);
        if (i < p.head_dim / 8) {
            *(uint4*)(s.k + at * V::STRIDE + 8 * i) = *(const uint4*)(k.values + 8 * i);
            if (!V::LATENT) *(uint4*)(s.v + at * V::STRIDE + 8 * i) = *(const uint4*)(v.values + 8 * i);
        }
        if (V::Q8 && i < (p.head_dim + CACHE_BLOCK - 1) / CACHE_BLOCK) {
            s.k_scale[at * V::BLOCKS + i] = k.scales[i];
            if (!V::LATENT) s.v_scale[at * V::BLOCKS + i] = v.scales[i];
        }
    }
};

// A head that a warp takes from its projection.
template <class V>
struct Head {
    Quad x[QUADS_OF<V::DIM>], norm[QUADS_OF<V::DIM>];
    Quad end[1];  // of latent attention what turns, behind the front that is in x
    int m;        // the query, or KEY or VALUE of this block's row
};
enum { VALUE = -1, KEY = -2, HEADS_BEFORE = 2 };

// Asks for head i of the block.
template <class V>
DEVICE Head<V> ask_head(const AttentionParams& p, const RowQueries& query, int i) {
    const RopeKvParams& r = p.rope;
    Head<V> h;
    h.m = i - HEADS_BEFORE;
    if constexpr (V::LATENT) {
        if (h.m == VALUE) return h;
        const size_t of_q = (size_t)query.row * p.n_head + query.head + h.m;
        const float* key = r.k + (size_t)query.row * p.head_dim;
        load_quads(h.x, h.m == KEY ? key : p.q + of_q * p.head_dim, p.value_dim);
        load_quads(h.end, h.m == KEY ? key + p.value_dim : r.q + of_q * r.q_step, r.n_rot);
        load_quads(h.norm, r.k_norm, h.m == KEY ? p.value_dim : 0);
        return h;
    }
    const size_t of_kv = ((size_t)query.row * p.n_head_kv + head_tile(p).x) * p.head_dim;
    const float *from = r.q + ((size_t)query.row * p.n_head + query.head + h.m) * r.q_step, *norm = r.q_norm;
    if (h.m == KEY) from = r.k + of_kv, norm = r.k_norm;
    if (h.m == VALUE) from = r.v + of_kv, norm = nullptr;
    load_quads(h.x, from, p.head_dim);
    load_quads(h.norm, norm, norm ? p.head_dim : 0);
    return h;
}

// The end of a latent query or key joins its front.
template <class V>
DEVICE void join_end(const AttentionParams& p, Quad (&x)[QUADS_OF<V::DIM>], const Quad& end) {
#pragma unroll
    for (int n = 0; n < QUADS_OF<V::DIM>; n++) {
        const int i = 128 * n + 4 * lane(), inside = i >= p.value_dim && i < p.head_dim;
        for (int j = 0; j < 4; j++) {
            const float v = shuffle(end.v[j], i - p.value_dim >> 2 & 31);
            x[n].v[j] = inside ? v : x[n].v[j];
        }
    }
}

// Norms and turns the block's heads. `makes_own`: key and value of its row are made, too, for `slot` of the cache and for itself.
template <class V>
DEVICE void turn_heads(const AttentionParams& p, const Run& run, const RowQueries& query, const Shared& s, float* turns, int makes_own, size_t slot, const Own<V>& own) {
    const RopeKvParams& r = p.rope;
    const int heads = HEADS_BEFORE + query.count;
    int i = (makes_own ? 0 : HEADS_BEFORE) + warp();
    Head<V> h;
    if (!HAS_DEPENDENT_LAUNCH && i < heads) h = ask_head<V>(p, query, i);
    // The rows of the tile that have no query.
    for (int at = query.count * V::STRIDE + 8 * threadIdx.x; at < V::ROWS * V::STRIDE; at += 8 * V::THREADS) {
        *(uint4*)(s.q_high + at) = *(uint4*)(s.q_low + at) = {0, 0, 0, 0};
    }
    if (threadIdx.x < V::ROWS) s.factor[threadIdx.x] = 0.0f;
    if ((int)threadIdx.x < r.n_rot / 2) store_turn(r, turns, threadIdx.x, run.last, r.frequency[threadIdx.x]);
    block_sync();
    Turn<V::LATENT ? 1 : QUADS_OF<V::DIM>> turned;
    load_turn(turned, r, turns);
    if (HAS_DEPENDENT_LAUNCH) {
        if (r.q_norm) prefetch(r.q_norm, 4 * p.head_dim);
        if (r.k_norm) prefetch(r.k_norm, 4 * p.value_dim);  // of latent keys the front is normed
        depend_wait();
        depend_launch();
        if (i < heads) h = ask_head<V>(p, query, i);
    }
#pragma unroll 1
    for (; i < heads; i += V::WARPS) {
        if (V::LATENT && i - HEADS_BEFORE == VALUE) continue;
        if (h.m != i - HEADS_BEFORE) h = ask_head<V>(p, query, i);
        const float* norm = h.m == KEY ? r.k_norm : r.q_norm;
        if (h.m == VALUE ? r.v_norm : norm != nullptr) norm_head(h.x, r, h.norm, h.m != VALUE);
        if constexpr (V::LATENT) {
            turn(h.end, r, turned);
            join_end<V>(p, h.x, h.end[0]);
        } else if (h.m != VALUE) {
            turn(h.x, r, turned);
        }
        if (h.m >= 0) {
            store_query<V>(p, s, h.m, run.last, h.x);
        } else {
            const int key = h.m == KEY;
            append(key ? p.cache.k : p.cache.v, key ? p.cache.k_scale : p.cache.v_scale, slot, p.cache.type, {p.head_dim, 0, p.head_dim}, h.x, head_tile(p).y == 0, own.to(key));
        }
    }
}

// Queries that are turned already.
template <class V>
DEVICE void load_queries(const AttentionParams& p, const RowQueries& query, const Shared& s) {
    for (int m = warp(); m < V::ROWS; m += V::WARPS) {
        Quad x[QUADS_OF<V::DIM>];
        const Query q = query(m);
        load_quads(x, p.q + ((size_t)query.row * p.n_head + q.head) * p.head_dim, q.row < 0 ? 0 : p.head_dim);
        store_query<V>(p, s, m, q.last, x);
    }
}

// Where a part of query m is in memory.
DEVICE size_t part_of(const AttentionParams& p, const Query& q, int number) {
    return ((size_t)q.row * p.n_head + q.head) * p.parts + number;
}

// A part to memory: its maximum and sum, and this warp's dimensions.
template <class V>
DEVICE void store_part(const AttentionParams& p, Role at, const Query& q, int number, const Output<V>& part, float total) {
    if (q.row < 0) return;
    const size_t to = part_of(p, q, number);
#pragma unroll
    for (int slice = 0; slice < V::SLICES; slice++) {
        const int d = 16 * (slice * V::SHARES + at.share) + 2 * at.pair;
        if (d >= p.value_dim) break;
        for (int n = 0; n < 2; n++) {
            *(float2*)(p.partial + to * p.value_dim + d + 8 * n) = {part.sum[slice][n][0], part.sum[slice][n][1]};
        }
    }
    if (at.share == 0 && at.pair == 0) *(float2*)(p.state + 2 * to) = {part.max[0], total};
}

// Joins the parts of each query that the blocks of a row left in memory, as `join_part` does; to where `hand_over` puts them. A warp
// takes 128 elements at a time, and asks for some parts at once.
template <class V>
DEVICE void join_parts(const AttentionParams& p, const Shared& s, const RowQueries& query, int parts) {
    constexpr int QUADS = QUADS_OF<V::VALUE_DIM>, AT_ONCE = 4;
#pragma unroll 1
    for (int i = warp(); i < V::ROWS * QUADS; i += V::WARPS) {
        const int m = i / QUADS, d = i % QUADS * 128 + 4 * lane();
        const Query q = query(m);
        if (q.row < 0) continue;
        const size_t first = part_of(p, q, 0);
        const int inside = d < p.value_dim;
        Quad sum = {{0.0f, 0.0f, 0.0f, 0.0f}};
        float max = -INFINITY, total = 0.0f;
#pragma unroll 1
        for (int begin = 0; begin < parts; begin += AT_ONCE) {
            float2 state[AT_ONCE];
            Quad part[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                const size_t at = first + min(begin + j, parts - 1);
                state[j] = *(const float2*)(p.state + 2 * at);
                part[j] = inside ? load_quad(p.partial + at * p.value_dim + d) : Quad{{0.0f, 0.0f, 0.0f, 0.0f}};
            }
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                if (begin + j >= parts) break;
                const float2 factor = join(&max, state[j].x);
                total = joined(total, state[j].y, factor);
                for (int e = 0; e < 4; e++) sum.v[e] = joined(sum.v[e], part[j].v[e], factor);
            }
        }
        if (d < V::VALUE_DIM) store_quad(s.out + m * V::STRIDE + d, sum);
        if (d == 0) s.sum[m] = with_sink(p, q.head, max, total);
    }
}

// All steps of a share; the first one's keys and values are on their way. Those of the next one come as soon as no warp reads the last
// one's. A tile at a time, but for those behind the row: of code that one block runs once, every line is waited for.
template <class V>
DEVICE void attend(const AttentionParams& p, const Run& run, const Share& share, Shared& s, const RowQueries& query, Role at, const Own<V>& own, Output<V>& all) {
    Output<V> part = nothing<V>();
#pragma unroll 1
    for (int i = share.begin; i < share.end; i++) {
        cp_async_wait<0>();
        block_sync();
        const int more = i + 1 < share.end, missing = i + 2 == share.end ? own.position : NO_POSITION;
        Tile next = {0, 0};
        Fetch<V> keys, values;
        // What goes through registers is under way meanwhile.
        if (Fetch<V>::THROUGH_REGISTERS && more) {
            next = locate<V>(p, run, i + 1);
            keys = ask_keys<V>(p, run, next, missing);
        }
        score<V>(p, run, i * V::STEP, s, at, query);
        block_sync();
        if constexpr (V::LATENT) s.take_turns();
        if (more) {
            if (!Fetch<V>::THROUGH_REGISTERS) next = locate<V>(p, run, i + 1);
            put_keys<V>(p, run, next, s, keys, missing);
            values = ask_values<V>(p, run, next, missing);
        }
        cp_async_commit();
        const int seen = V::AT_ONCE == 1 ? V::KEYS : min(run.last + 1 - i * V::STEP, V::STEP);
#pragma unroll 1
        for (int from = 0; from < seen; from += V::KEYS) {
            Weights<V> weights;
            weigh(s, at, from, part, weights);
            accumulate(p, s, at, from, part, weights);
        }
        if (!more || ((i + 1) & ((1 << share.shift) - 1)) == 0) {
            const float total = total_of(part, 0);
            if (share.blocks > 1) {
                store_part<V>(p, at, query(at.group), (i >> share.shift) - (run.first / V::STEP >> share.shift), part, total);
            } else {
                join_part(all, part, 0, total);
            }
            begin_part(part, 0);
        }
        if (!V::LATENT && more) {
            block_sync();  // the last step's values are still read
            put_values<V>(p, run, next, s, values, missing);
            cp_async_commit();
        }
        if (missing != NO_POSITION) own.place(p, s);
    }
}

template <class V>
DEVICE void attention_rows(const AttentionParams& p) {
    DYN_SHARED(uint4, arena);
    SHARED(float, numbers, [2][V::ROWS]);
    Shared s;
    unsigned char* bytes = (unsigned char*)arena;
    s.q_high = (unsigned short*)bytes;
    s.q_low = s.q_high + V::ROWS * V::STRIDE;
    s.out = (float*)bytes;
    s.k = (unsigned short*)(bytes + V::QUERIES);
    s.v = s.k + V::STEP * V::STRIDE;
    s.scores = (float*)(bytes + V::QUERIES + 2 * V::TILE);
    float* const turns = s.scores + V::ROWS * V::SCORE_STRIDE;
    s.k_scale = turns + V::TURNS / 4;
    s.v_scale = s.k_scale + V::SCALES;
    s.factor = numbers[0], s.sum = numbers[1];

    // Positions and sequences are those of the step: no kernel of it has written them.
    const int row = blockIdx.y, last = p.pos[row];
    const Run run = {p.seq[row], row, row + 1, first_seen(p, last), last};
    const Share share = share_of<V>(p, run);
    if (share.begin == share.end) {
        depend_wait();
        return;
    }
    const int2 tile = head_tile(p);
    const int head = tile.y * V::ROWS;
    const RowQueries query = {row, tile.x * p.group + head, min(p.group - head, V::ROWS), run.first, last};
    const int turns_here = p.rope.q != nullptr, makes = turns_here && p.rope.k != nullptr;
    // Its own position is in a block's last step, which may be the first one, too.
    const int makes_own = makes && share.end == last / V::STEP + 1, alone = makes_own && share.end == share.begin + 1;
    const Tile first = locate<V>(p, run, share.begin);
    const size_t slot = alone ? first.slot + last % V::STEP : makes_own ? cache_slot(p.cache, run.seq, last, tile.x, p.n_head_kv) : 0;
    const int missing = alone ? last : NO_POSITION, in_step = last % V::STEP;
    const int tile_row = V::QUERIES + 2 * in_step * V::STRIDE, tile_scale = V::QUERIES + 2 * V::TILE + V::SCORES + V::TURNS + 4 * in_step * V::BLOCKS;
    constexpr int ASIDE = V::BYTES - V::OWN, ASIDE_SCALE = ASIDE + (V::LATENT ? 1 : 2) * 2 * V::STRIDE;
    const Own<V> own = {
        bytes,
        alone ? tile_row : ASIDE,
        alone ? tile_row + V::TILE : ASIDE + 2 * V::STRIDE,
        alone ? tile_scale : ASIDE_SCALE,
        alone ? tile_scale + 4 * V::SCALES : ASIDE_SCALE + 4 * V::BLOCKS,
        makes_own && !alone ? last : NO_POSITION,
    };
    const auto fetch_first = [&] {
        fetch_keys<V>(p, run, first, s, missing);
        fetch_values<V>(p, run, first, s, missing);
        cp_async_commit();
    };
    clear_rest<V>(p, s);
    // What other rows of this step have put into the cache is there when the kernel before has ended, and the rest of it since the
    // last step.
    if (makes) fetch_first();
    if (turns_here) {
        turn_heads<V>(p, run, query, s, turns, makes_own, slot, own);
    } else {
        depend_wait();
        depend_launch();
        load_queries<V>(p, query, s);
    }
    if (!makes) fetch_first();

    const Role at = {0, warp(), lane() >> 2, lane() & 3};
    Output<V> o = nothing<V>();
    attend<V>(p, run, share, s, query, at, own, o);
    if (share.blocks > 1) {
        if (!last_block(p.tickets + blockIdx.y * gridDim.x + blockIdx.x, share.blocks)) return;
        join_parts<V>(p, s, query, share.parts);
    } else {
        hand_over<V>(p, s, at, o, query);
    }
    block_sync();
    write<V>(p, s, query);
}

// X(attention_rows_TYPE_DIM, DIM, whether q8_0): at most DIM elements per head.
#define ATTENTION_ROWS(X)               \
    X(attention_rows_f16_64, 64, 0)     \
    X(attention_rows_f16_128, 128, 0)   \
    X(attention_rows_f16_256, 256, 0)   \
    X(attention_rows_f16_512, 512, 0)   \
    X(attention_rows_f16_576, 576, 0)   \
    X(attention_rows_q8_0_64, 64, 1)    \
    X(attention_rows_q8_0_128, 128, 1)  \
    X(attention_rows_q8_0_256, 256, 1)  \
    X(attention_rows_q8_0_512, 512, 1)  \
    X(attention_rows_q8_0_576, 576, 1)

#define KERNEL(NAME, ...)                                                                                           \
    extern "C" __global__ void __launch_bounds__(256, Rows<__VA_ARGS__>::RESIDENT) NAME(const AttentionParams p) {  \
        attention_rows<Rows<__VA_ARGS__>>(p);                                                                       \
    }
ATTENTION_ROWS(KERNEL)
#undef KERNEL
