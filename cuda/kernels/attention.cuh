// Attention of a tile of queries over the pages of their sequences, on tensor cores with f32 accuracy.
//
// A tile is the query heads of one key/value head for one token (decode) or some consecutive rows of the
// chunk (prefill): up to 16·ROW_TILES queries. Four warps, eight for heads beyond 128: a warp has one row tile of 16 queries and, of each
// tile of KEYS positions, its share of the scores and then its share of the output's dimensions; scores travel
// through shared memory in between.
//
// f16 operands would cost three digits, so queries and weights go through the tensor cores as the sum of two
// f16 numbers; keys and values are f16 already, or int8 (exact in f16) whose scales are applied outside.
//
// Grid: key/value heads (times the tiles that their query heads need) × ceil(rows / rows_per_tile) × splits blocks of 128
// threads (256). Shared memory: Variant::BYTES, 16 to 54 KB, and 32 bytes per query. Moves the keys and values that a tile sees
// once per tile: 4·head_dim bytes per position in f16, 2.125·head_dim in q8_0.
//
// A query's arithmetic is fixed by its position. What it sees falls into at most MAX_PARTS parts of 64·2^n positions, at
// multiples of that. A part starts from nothing and takes tiles of KEYS absolute positions in order; parts join in
// order. A tile that a query does not see changes nothing, to the bit. So a token has the same bits in decoding and in a
// prompt, wherever that is cut, whatever the number of splits.
//
// Where a row goes for itself the blocks also norm and turn its queries, and the block with its own position puts its key and
// value into the cache before it reads them there.
#pragma once
#include "image.cuh"
#include "rope.cuh"

enum { MAX_PARTS = 64 };

// Of a block: as many as registers need for the output of heads of up to DIM elements.
#define ATTENTION_THREADS(DIM) ((DIM) > 128 ? 256 : 128)

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
    int rows_per_tile;   // 1 where splits > 1
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
    RopeKvParams rope;  // what is to be done with q, k and v before; rope.q null: nothing, it is done. Needs rows_per_tile 1 and
                        // all heads of a kv head in one tile
};

// Sizes and places of one variant. DIM: head_dim rounded up to 64, 128, 256 or 512. Of heads beyond 256 the 64 KB of an sm_75
// hold the queries and one tile of 16 positions: keys, then values, lie in the same place.
template <int DIM_, int ROW_TILES, int Q8_>
struct Variant {
    static constexpr int DIM = DIM_, Q8 = Q8_;
    static constexpr int ROWS = 16 * ROW_TILES;
    static constexpr int THREADS = ATTENTION_THREADS(DIM), WARPS = THREADS / 32;
    static constexpr int TILES = DIM > 256 ? 1 : 2;  // that have room at once
    static constexpr int KEYS = 16 * TILES;
    static constexpr int PAGE_SHIFT = TILES == 1 ? 2 : 1;  // log2 of the tiles of a page
    static constexpr int SHARES = WARPS / ROW_TILES;            // warps that share a row tile
    static constexpr int KEY_TILES = KEYS / 8 < SHARES ? 1 : KEYS / 8 / SHARES;  // of 8 keys, per warp that has some
    static constexpr int SLICES = DIM / 16 / SHARES;            // of 16 output dimensions, per warp
    static constexpr int STRIDE = DIM + 8;                      // f16 elements: rows fall into different banks
    static constexpr int SCORE_STRIDE = KEYS + 8;
    static constexpr int BLOCKS = DIM / 32;  // q8_0 blocks of a token
    static constexpr int RESIDENT = DIM > 128 ? 1 : ROWS == 16 ? 4 : 2;  // blocks per multiprocessor that registers allow
    static constexpr int SCALES = Q8 ? KEYS * BLOCKS : 0;
    // Dynamic shared memory in bytes, in this order.
    static constexpr int QUERIES = 2 * 2 * ROWS * STRIDE, TILE = 2 * KEYS * STRIDE, SCORES = 4 * ROWS * SCORE_STRIDE;
    static constexpr int BYTES = QUERIES + TILES * TILE + SCORES + 2 * 4 * SCALES;
};

template <class V>
struct Shared {
    unsigned short *q_high, *q_low;  // [ROWS][STRIDE]
    float* out;                      // [ROWS][STRIDE] where the queries were
    unsigned short *k, *v;           // [KEYS][STRIDE]; one place where TILES is 1
    float* scores;                   // [ROWS][SCORE_STRIDE]
    float *k_scale, *v_scale;        // [KEYS][BLOCKS], q8_0 only
    // Of each query: its row (-1: no query), head, first and last position, log2 of the tiles of a part, factor on scores; at the
    // end the sum.
    int *row, *head, *first, *last, *part;
    float *factor, *sum;
};

// Rows of one sequence within a tile, in the order of their positions, and the positions that any of them sees.
struct Run {
    int seq, from, to;  // rows from..to
    int first, last;    // positions, both included
};

// The tiles of positions begin..end that a block sees to.
struct Share {
    int begin, end;
};

// The first position that a row at `last` sees.
DEVICE int first_seen(const AttentionParams& p, int last) {
    return p.window > 0 && last >= p.window ? last - p.window + 1 : 0;
}

// The rows from `from` on that are of one sequence.
DEVICE Run find_run(const AttentionParams& p, int from, int end) {
    const int seq = p.seq[from], at = p.pos[from];
    Run run = {seq, from, from + 1, first_seen(p, at), at};
    for (; run.to < end && p.seq[run.to] == seq; run.to++) run.last = p.pos[run.to];
    return run;
}

// Tiles of a part of what a row sees, as a power of two.
template <class V>
DEVICE int part_shift(int first, int last) {
    int shift = V::PAGE_SHIFT;
    while ((last / V::KEYS >> shift) - (first / V::KEYS >> shift) >= MAX_PARTS) shift++;
    return shift;
}

template <class V>
DEVICE int parts_of(int first, int last) {
    const int shift = part_shift<V>(first, last);
    return (last / V::KEYS >> shift) - (first / V::KEYS >> shift) + 1;
}

// How many blocks share the parts of a run.
template <class V>
DEVICE int blocks_of(const AttentionParams& p, const Run& run) {
    return p.splits == 1 ? 1 : min(p.splits, parts_of<V>(run.first, run.last));
}

// What this block does of a run: some parts, or nothing where it is idle or there are not so many.
template <class V>
DEVICE Share share_of(const AttentionParams& p, const Run& run) {
    const int blocks = blocks_of<V>(p, run), block = blockIdx.z;
    if (run.seq < 0 || block >= blocks) return {0, 0};
    const int first = run.first / V::KEYS, end = run.last / V::KEYS + 1;
    if (blocks == 1) return {first, end};
    const int shift = part_shift<V>(run.first, run.last), from = first >> shift, parts = (end - 1 >> shift) + 1 - from;
    return {max(first, from + parts * block / blocks << shift), min(end, from + parts * (block + 1) / blocks << shift)};
}

// Where rows are turned: cosines and sines, and room for a head of each warp, where values will be.
template <class V>
DEVICE float* turns_of(const Shared<V>& s) { return (float*)s.v; }
template <class V>
DEVICE float* scratch_of(const Shared<V>& s) { return turns_of(s) + V::DIM + warp() * V::DIM; }

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

template <class V>
DEVICE void place_query(const AttentionParams& p, const Shared<V>& s, int m, int row, int head, int last) {
    s.row[m] = row;
    s.head[m] = head;
    s.last[m] = last;
    s.first[m] = first_seen(p, last);
    s.part[m] = part_shift<V>(s.first[m], last);
    s.factor[m] = 0.0f;
}

// Finds each query of the tile.
template <class V>
DEVICE void place_queries(const AttentionParams& p, const Shared<V>& s) {
    const int m = threadIdx.x;
    if (m >= V::ROWS) return;
    const int2 tile = head_tile(p);
    const int token = m * p.place_factor >> 16, row = blockIdx.y * p.rows_per_tile + token;
    const int in_group = tile.y * p.heads_per_tile + m - token * p.heads_per_tile;
    const int live = token < p.rows_per_tile && in_group < p.group && row < p.rows && p.seq[row] >= 0;
    place_query(p, s, m, live ? row : -1, tile.x * p.group + in_group, live ? p.pos[row] : -1);
}

// A query as two f16 numbers, scaled by a power of two so that neither loses digits.
template <class V>
DEVICE void store_query(const AttentionParams& p, const Shared<V>& s, int m, const Quad (&x)[QUADS_OF<V::DIM>]) {
    float largest = 0.0f;
    for (const Quad& q : x) {
        for (int j = 0; j < 4; j++) largest = fmaxf(largest, fabsf(q.v[j]));
    }
    unsigned exponent = __float_as_uint(warp_max(largest)) >> 23;
    exponent -= exponent > 253;  // `shrink` is normal
    const float shrink = __uint_as_float((254 - exponent) << 23);
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
        if (p.growth != 0.0f) scale *= fmaf(p.growth, logf((float)(1 + s.last[m] / p.grows_every)), 1.0f);
        s.factor[m] = product(__uint_as_float(exponent << 23), scale);
    }
}

// A head that a warp takes from its projection.
template <class V>
struct Head {
    Quad x[QUADS_OF<V::DIM>], norm[QUADS_OF<V::DIM>];
    int m;  // the query, or KEY or VALUE of this block's row
};
enum { VALUE = -1, KEY = -2, HEADS_BEFORE = 2 };

// Asks for head i of the block.
template <class V>
DEVICE Head<V> ask_head(const AttentionParams& p, int i) {
    const RopeKvParams& r = p.rope;
    Head<V> h;
    h.m = i - HEADS_BEFORE;
    const int kv = blockIdx.x;
    const size_t row = blockIdx.y, of_kv = (row * p.n_head_kv + kv) * p.head_dim;
    const float *from = r.q + (row * p.n_head + kv * p.group + h.m) * r.q_step, *norm = r.q_norm;
    if (h.m == KEY) from = r.k + of_kv, norm = r.k_norm;
    if (h.m == VALUE) from = r.v + of_kv, norm = nullptr;
    load_quads(h.x, from, p.head_dim);
    load_quads(h.norm, norm, norm ? p.head_dim : 0);
    return h;
}

// Where rows go for themselves: all heads of the block's row are normed and turned; key and value go into the cache, if `own`.
template <class V>
DEVICE void turn_heads(const AttentionParams& p, const Run& run, const Shared<V>& s, int own) {
    constexpr int WARPS = V::WARPS > 6 ? 6 : V::WARPS;  // have room to turn their heads
    const RopeKvParams& r = p.rope;
    const int heads = HEADS_BEFORE + p.group;
    int i = (own ? 0 : HEADS_BEFORE) + warp();
    const int m = threadIdx.x, turning = m < r.n_rot / 2;
    Head<V> h;
    if (!HAS_DEPENDENT_LAUNCH && i < heads) h = ask_head<V>(p, i);
    const unsigned long long frequency = turning ? r.frequency[m] : 0;
    if (m < V::ROWS) place_query(p, s, m, m < p.group ? run.from : -1, blockIdx.x * p.group + m, run.last);
    // The rows of the tile that have no query.
    for (int at = p.group * V::STRIDE + 8 * threadIdx.x; at < V::ROWS * V::STRIDE; at += 8 * V::THREADS) {
        *(uint4*)(s.q_high + at) = *(uint4*)(s.q_low + at) = {0, 0, 0, 0};
    }
    if (turning) store_turn(r, turns_of(s), m, run.last, frequency);
    if (HAS_DEPENDENT_LAUNCH) {
        if (r.q_norm) prefetch(r.q_norm, 4 * p.head_dim);
        if (r.k_norm) prefetch(r.k_norm, 4 * p.head_dim);
        depend_wait();
        depend_launch();
        if (i < heads) h = ask_head<V>(p, i);
    }
    block_sync();
    if (warp() >= WARPS) return;
#pragma unroll 1
    for (; i < heads; i += WARPS) {
        if (h.m != i - HEADS_BEFORE) h = ask_head<V>(p, i);
        const float* norm = h.m == KEY ? r.k_norm : r.q_norm;
        if (h.m == VALUE ? r.v_norm : norm != nullptr) norm_head(h.x, r, h.norm, h.m != VALUE);
        if (h.m != VALUE) turn(h.x, r, turns_of(s), scratch_of(s));
        if (h.m >= 0) {
            store_query(p, s, h.m, h.x);
        } else {
            const size_t slot = cache_slot(p.cache, run.seq, run.last, blockIdx.x, p.n_head_kv);
            append(h.m == KEY ? p.cache.k : p.cache.v, h.m == KEY ? p.cache.k_scale : p.cache.v_scale, slot, p.cache.type, p.head_dim, h.x);
        }
    }
}

// Queries that are turned already.
template <class V>
DEVICE void load_queries(const AttentionParams& p, const Shared<V>& s) {
    for (int m = warp(); m < V::ROWS; m += V::WARPS) {
        Quad x[QUADS_OF<V::DIM>];
        const int row = max(s.row[m], 0);
        load_quads(x, p.q + ((size_t)row * p.n_head + s.head[m]) * p.head_dim, s.row[m] < 0 ? 0 : p.head_dim);
        store_query(p, s, m, x);
    }
}

// A tile of positions: the first, and its slot in the pools.
struct Tile {
    int start;
    size_t slot;
};

template <class V>
DEVICE Tile locate(const AttentionParams& p, const Run& run, int tile) {
    const int start = tile * V::KEYS;
    return {start, cache_slot(p.cache, run.seq, start, head_tile(p).x, p.n_head_kv)};
}

// Asks L2 for the keys and values of a tile.
template <class V>
DEVICE void prefetch_tile(const AttentionParams& p, Tile tile) {
    const int bytes = p.head_dim * (V::Q8 ? 1 : 2);
    prefetch((const char*)p.cache.k + tile.slot * bytes, V::KEYS * bytes);
    prefetch((const char*)p.cache.v + tile.slot * bytes, V::KEYS * bytes);
}

// Sixteen bytes of a tile to shared memory; int8 become f16.
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

// Brings keys or values of a tile into shared memory. Positions that no row of the run sees are not read: nobody
// has written them, or somebody else has. Where the copy goes through registers, all loads come before the stores.
template <class V>
DEVICE void fetch(const AttentionParams& p, const Run& run, Tile tile, unsigned short* to, const void* plane) {
    constexpr int BYTES = V::Q8 ? 1 : 2, PER_KEY = V::DIM * BYTES / 16;  // threads that share a position
    constexpr int STEP = V::THREADS / PER_KEY, PIECES = V::KEYS / STEP;
    int key = threadIdx.x / PER_KEY, d = threadIdx.x % PER_KEY * (16 / BYTES);
    if (d >= p.head_dim) return;
    const unsigned char* from = (const unsigned char*)plane + BYTES * ((tile.slot + key) * (unsigned)p.head_dim + d);
    to += key * V::STRIDE + d;
    uint4 piece[PIECES];
    for (int i = 0; i < PIECES; i++) {
        int position = tile.start + key + i * STEP, valid = position >= run.first && position <= run.last;
        const void* source = from + BYTES * i * STEP * p.head_dim;
        if constexpr (HAS_CP_ASYNC && !V::Q8) {
            cp_async16(to + i * STEP * V::STRIDE, source, valid);
        } else {
            piece[i] = valid ? *(const uint4*)source : uint4{0, 0, 0, 0};
        }
    }
    if constexpr (!HAS_CP_ASYNC || V::Q8) {
        for (int i = 0; i < PIECES; i++) place<V>(to + i * STEP * V::STRIDE, piece[i]);
    }
}

// The scales of the same.
template <class V>
DEVICE void fetch_scales(const AttentionParams& p, const Run& run, Tile tile, float* to, const unsigned short* plane) {
    int blocks = (p.head_dim + CACHE_BLOCK - 1) / CACHE_BLOCK;
    for (int i = threadIdx.x; i < V::SCALES; i += V::THREADS) {
        int key = i / V::BLOCKS, block = i % V::BLOCKS, position = tile.start + key;
        int valid = block < blocks && position >= run.first && position <= run.last;
        to[i] = valid ? f16_to_f32(plane[(tile.slot + key) * blocks + block]) : 0.0f;
    }
}

template <class V>
DEVICE void fetch_keys(const AttentionParams& p, const Run& run, Tile tile, const Shared<V>& s) {
    if constexpr (V::Q8) fetch_scales<V>(p, run, tile, s.k_scale, p.cache.k_scale);
    fetch<V>(p, run, tile, s.k, p.cache.k);
}

template <class V>
DEVICE void fetch_values(const AttentionParams& p, const Run& run, Tile tile, const Shared<V>& s) {
    if constexpr (V::Q8) fetch_scales<V>(p, run, tile, s.v_scale, p.cache.v_scale);
    fetch<V>(p, run, tile, s.v, p.cache.v);
}
