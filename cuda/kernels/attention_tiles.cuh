// Attention over the paged cache: what its kernels take, where a block has it in shared memory, and how queries, keys and values come
// there. Their arithmetic is in attention.cuh.
//
// Of latent attention values are the first elements of keys. Where two tiles have room their places take turns: what were keys are
// values, and the next keys come to the other place.
#pragma once
#include "image.cuh"
#include "rope.cuh"

enum { MAX_PARTS = 64 };

struct AttentionParams {
    const float* q;  // [rows][n_head][head_dim]; not read where there is a rope, but for the front of latent queries
    const int* pos;  // [rows]
    const int* seq;  // [rows]: rows with seq < 0 are skipped
    const int* end;  // [rows]: the length of a row's text, of which it sees what lies behind it too; null: it does not. Of prompts
    Cache cache;
    float* out;         // [rows][n_head][value_dim], or null
    QuantizedActivations image;        // the same for quantized matmuls (value_dim a multiple of 32), or null
    float* partial;     // [rows][n_head][parts][value_dim] not yet divided, where splits > 1
    float* state;       // [rows][n_head][parts][2] maximum and sum
    unsigned* tickets;  // [rows][gridDim.x], zero between launches
    int rows;
    int n_head, n_head_kv;
    int group;           // query heads of a kv head
    int head_dim;        // a multiple of 16; of 32 beyond 256, but not in latent attention
    int value_dim;       // head_dim; in latent attention fewer, a multiple of 32
    int heads_per_tile;  // query heads in a tile: those of a kv head, or as many as fit
    int rows_per_tile;   // 1 where rows go one by one
    int tiles_of_kv;     // tiles of the query heads of a kv head
    int place_factor;    // ⌈2^16 / heads_per_tile⌉: what a query's number is multiplied by instead of being divided
    int splits;          // blocks that share the parts of a row
    int parts;           // that there is room for: those of every row, where splits > 1
    int window;          // positions that a row sees, its own included; 0: all. Where it sees what lies behind it half of them on either side
    float scale;
    float softcap;  // 0: none
    float growth;   // queries are multiplied by 1 + growth·ln(1 + ⌊position / grows_every⌋); 0: they are not
    int grows_every;
    int gate_step;  // elements from head to head of gate
    const float* gate;  // [rows][n_head][gate_step], of which the first head_dim: the output is multiplied by their sigmoids; or null
    const float* sinks;  // [n_head]: a score of each head that weighs and has no value; or null
    // What is to be done with q, k and v before; rope.q null: nothing, it is done. Needs rows_per_tile 1. Of latent attention as
    // LatentKvParams has it.
    RopeKvParams rope;
};

// What kernels have in common for heads of up to DIM elements (64, 128, 256 or 512), with keys and values in f16 or q8_0. LATENT: of
// latent attention, where DIM is 576 and values are the first elements of keys, up to VALUE_DIM.
template <int DIM_, int Q8_>
struct Heads {
    static constexpr int DIM = DIM_, Q8 = Q8_, LATENT = DIM > 512, VALUE_DIM = LATENT ? 512 : DIM;
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
    // Keys become values.
    __device__ __forceinline__ void take_turns() {
        unsigned short* const values = k;
        float* const scales = k_scale;
        k = v, k_scale = v_scale;
        v = values, v_scale = scales;
    }
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

enum { NO_POSITION = -1 };

// Keys or values of a step on their way into shared memory. Positions that no row of the run sees are not read: nobody
// has written them, or somebody else has. Position `own` is left alone: somebody puts it there. Where the copy goes through
// registers, `ask` has all loads and `put` waits for them; else `put` starts the copy.
template <class V>
struct Fetch {
    static constexpr int THROUGH_REGISTERS = !HAS_CP_ASYNC || V::Q8;
    static constexpr int BYTES = V::Q8 ? 1 : 2, PER_KEY = V::DIM * BYTES / 16;  // threads that share a position
    static constexpr int KEYS = V::THREADS / PER_KEY, PIECES = (V::STEP + KEYS - 1) / KEYS;
    static constexpr int ALL_BUSY = V::THREADS % PER_KEY == 0 && V::STEP % KEYS == 0;
    static constexpr int LANES = V::LATENT ? 32 : V::BLOCKS;  // of a position's scales: a power of two, nothing is divided
    static constexpr int SCALES = V::Q8 ? (V::STEP * LANES + V::THREADS - 1) / V::THREADS : 0;
    uint4 piece[THROUGH_REGISTERS ? PIECES : 1];
    unsigned short scale[V::Q8 ? SCALES : 1];

    // Does something with each piece of this thread's: its number, where it comes from, where it goes, whether it is read, and
    // whether it is put there.
    template <class F>
    static __device__ __forceinline__ void each(const AttentionParams& p, const Run& run, Tile tile, int own, const void* plane, unsigned short* to, F&& f) {
        const int key = threadIdx.x / PER_KEY, d = threadIdx.x % PER_KEY * (16 / BYTES);
        if (d >= p.head_dim || !ALL_BUSY && key >= KEYS) return;
        const unsigned char* from = (const unsigned char*)plane + BYTES * ((tile.slot + key) * (unsigned)p.head_dim + d);
        to += key * V::STRIDE + d;
        for (int i = 0; i < PIECES; i++) {
            if (!ALL_BUSY && key + i * KEYS >= V::STEP) break;
            const int position = tile.start + key + i * KEYS, mine = !V::HAS_OWN || position != own;
            const int valid = position >= run.first && position <= run.last;
            // A branch around each load of what goes through registers, and none around a copy.
            if (THROUGH_REGISTERS && !mine) continue;
            f(i, from + BYTES * i * KEYS * p.head_dim, to + i * KEYS * V::STRIDE, valid && mine, mine);
        }
    }
    template <class F>
    static __device__ __forceinline__ void each_scale(const Run& run, Tile tile, int own, F&& f) {
#pragma unroll
        for (int n = 0; n < SCALES; n++) {
            const int i = n * V::THREADS + threadIdx.x, at = i / LANES, block = i % LANES, position = tile.start + at;
            if (i >= V::STEP * LANES || LANES > V::BLOCKS && block >= V::BLOCKS) break;
            if (!V::HAS_OWN || position != own) f(n, at, block, position >= run.first && position <= run.last);
        }
    }

    __device__ __forceinline__ void ask(const AttentionParams& p, const Run& run, Tile tile, int own, const void* plane, const unsigned short* scales) {
        if constexpr (THROUGH_REGISTERS) {
            each(p, run, tile, own, plane, nullptr, [&](int i, const void* from, unsigned short*, int valid, int) {
                piece[i] = valid ? *(const uint4*)from : uint4{0, 0, 0, 0};
            });
        }
        const int blocks = (p.head_dim + CACHE_BLOCK - 1) / CACHE_BLOCK;
        each_scale(run, tile, own, [&](int n, int at, int block, int valid) {
            scale[n] = valid && block < blocks ? scales[(tile.slot + at) * blocks + block] : 0;
        });
    }
    __device__ __forceinline__ void put(const AttentionParams& p, const Run& run, Tile tile, int own, const void* plane, unsigned short* to, float* scales) const {
        each(p, run, tile, own, plane, to, [&](int i, const void* from, unsigned short* to, int valid, int mine) {
            if constexpr (THROUGH_REGISTERS) {
                place<V>(to, piece[i]);
            } else {
                if (mine) cp_async16(to, from, valid);
            }
        });
        each_scale(run, tile, own, [&](int n, int at, int block, int) { scales[at * V::BLOCKS + block] = f16_to_f32(scale[n]); });
    }
};

template <class V>
DEVICE Fetch<V> ask_keys(const AttentionParams& p, const Run& run, Tile tile, int own = NO_POSITION) {
    Fetch<V> fetch;
    fetch.ask(p, run, tile, own, p.cache.k, p.cache.k_scale);
    return fetch;
}

template <class V>
DEVICE Fetch<V> ask_values(const AttentionParams& p, const Run& run, Tile tile, int own = NO_POSITION) {
    Fetch<V> fetch;
    if constexpr (!V::LATENT) fetch.ask(p, run, tile, own, p.cache.v, p.cache.v_scale);
    return fetch;
}

template <class V>
DEVICE void put_keys(const AttentionParams& p, const Run& run, Tile tile, const Shared& s, const Fetch<V>& fetch, int own = NO_POSITION) {
    fetch.put(p, run, tile, own, p.cache.k, s.k, s.k_scale);
}

template <class V>
DEVICE void put_values(const AttentionParams& p, const Run& run, Tile tile, const Shared& s, const Fetch<V>& fetch, int own = NO_POSITION) {
    if constexpr (!V::LATENT) fetch.put(p, run, tile, own, p.cache.v, s.v, s.v_scale);
}

template <class V>
DEVICE void fetch_keys(const AttentionParams& p, const Run& run, Tile tile, const Shared& s, int own = NO_POSITION) {
    put_keys<V>(p, run, tile, s, ask_keys<V>(p, run, tile, own), own);
}

template <class V>
DEVICE void fetch_values(const AttentionParams& p, const Run& run, Tile tile, const Shared& s, int own = NO_POSITION) {
    put_values<V>(p, run, tile, s, ask_values<V>(p, run, tile, own), own);
}

// Scores take dimensions by 32: where only 16 are left, the rest of the keys is zero.
template <class V>
DEVICE void clear_rest(const AttentionParams& p, const Shared& s) {
    if (p.head_dim % 32 == 0) return;
    for (int i = threadIdx.x; i < V::STEP * 16; i += V::THREADS) {
        const int at = i / 16 * V::STRIDE + p.head_dim + i % 16;
        s.k[at] = 0;
        if (V::LATENT) s.v[at] = 0;
    }
}
