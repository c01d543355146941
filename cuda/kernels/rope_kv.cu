// What happens to q, k and v between their projections and attention, where attention does not do it itself: see rope.cuh.
//
//   rope_kv      ceil((n_head + 2·n_head_kv) / 8) × rows blocks of 256 threads, a warp per head (of queries alone where the cache has keys
//                and values already); 1 KB of shared memory, 2 for heads beyond 256. Moves q in and out and k and v in at 4 bytes per
//                element, k and v out at 2 (f16) or 1.06 (q8_0).
//   latent_kv    ceil((n_head + 1) / 8) × rows blocks of 256 threads, a warp per head and one for the token's vector; 512 bytes of shared
//                memory. Moves 8 bytes per element of q that turns, and the same of one key and no value.
#include "ptx.cuh"

#include "rope.cuh"

enum { ROPE_WARPS = 8 };

// Heads of at most DIM elements.
template <int DIM>
DEVICE void rope_kv_of(const RopeKvParams& p) {
    constexpr int QUADS = QUADS_OF<DIM>;
    SHARED(float, turns, [DIM]);
    int row = blockIdx.y;
    if (p.seq[row] < 0) return;
    if ((int)threadIdx.x < p.n_rot / 2) store_turn(p, turns, threadIdx.x, p.pos[row], p.frequency[threadIdx.x]);
    block_sync();

    const int i = blockIdx.x * ROPE_WARPS + warp(), is_key = i >= p.n_head, is_value = i >= p.n_head + p.n_head_kv;
    const int head = i - (is_key ? p.n_head : 0) - (is_value ? p.n_head_kv : 0);
    if (i >= p.n_head + 2 * p.n_head_kv || is_key && !p.k) return;
    const size_t of_q = (size_t)row * p.n_head + head, of_kv = (size_t)row * p.n_head_kv + head;
    const float *norm = is_value ? nullptr : is_key ? p.k_norm : p.q_norm;
    Quad x[QUADS], weight[QUADS];
    load_quads(x, is_value ? p.v + of_kv * p.head_dim : is_key ? p.k + of_kv * p.head_dim : p.q + of_q * p.q_step, p.head_dim);
    load_quads(weight, norm, norm ? p.head_dim : 0);
    if (is_value ? p.v_norm : norm != nullptr) norm_head(x, p, weight, !is_value);
    if (!is_value) {
        Turn<QUADS> by;
        load_turn(by, p, turns);
        turn(x, p, by);
    }
    if (!is_key) {
        store_quads(p.q_out + of_q * p.head_dim, x, p.head_dim);
        return;
    }
    const size_t slot = cache_slot(p.cache, p.seq[row], p.pos[row], head, p.n_head_kv);
    append(is_value ? p.cache.v : p.cache.k, is_value ? p.cache.v_scale : p.cache.k_scale, slot, p.cache.type, {p.head_dim, 0, p.head_dim}, x);
}

#define ROPE_KV(NAME, DIM) \
    extern "C" __global__ void __launch_bounds__(256, 2) NAME(const RopeKvParams p) { rope_kv_of<DIM>(p); }
ROPE_KV(rope_kv, 256)
ROPE_KV(rope_kv_512, MAX_HEAD)
#undef ROPE_KV

// Latent attention: a query is what its head's matrix has made of the elements that do not turn, then those that turn. The key of all
// heads is one vector of each token, whose front is normed and whose end turns.
struct LatentKvParams {
    RopeKvParams rope;    // of q and k the elements that turn: q_step apart, to behind the `rank` of q_out, and behind those of k, whose
                          // norm is k_norm; v is not read
    float* k_out;         // [rows][head_dim]: the keys, too; or null
    int rank;             // a multiple of 32, at most MAX_RANK; rope.share is 1 / rank
    int pad;
};

extern "C" __global__ void __launch_bounds__(256, 2) latent_kv(const LatentKvParams p) {
    const RopeKvParams& r = p.rope;
    SHARED(float, turns, [MAX_TURNING]);
    const int row = blockIdx.y, i = blockIdx.x * ROPE_WARPS + warp(), is_key = i == r.n_head;
    if (r.seq[row] < 0) return;
    if ((int)threadIdx.x < r.n_rot / 2) store_turn(r, turns, threadIdx.x, r.pos[row], r.frequency[threadIdx.x]);
    block_sync();
    if (i > r.n_head) return;

    const size_t of_q = (size_t)row * r.n_head + i, of_k = (size_t)row * r.head_dim;
    Quad end[1];
    load_quads(end, is_key ? r.k + of_k + p.rank : r.q + of_q * r.q_step, r.n_rot);
    Turn<1> by;
    load_turn(by, r, turns);
    turn(end, r, by);
    if (!is_key) {
        store_quads(r.q_out + of_q * r.head_dim + p.rank, end, r.n_rot);
        return;
    }
    Quad front[QUADS_OF<MAX_RANK>], weight[QUADS_OF<MAX_RANK>];
    load_quads(front, r.k + of_k, p.rank);
    load_quads(weight, r.k_norm, p.rank);
    norm_head(front, r, weight, 1);
    const size_t slot = cache_slot(r.cache, r.seq[row], r.pos[row], 0, 1);
    append(r.cache.k, r.cache.k_scale, slot, r.cache.type, {r.head_dim, 0, p.rank}, front);
    append(r.cache.k, r.cache.k_scale, slot, r.cache.type, {r.head_dim, p.rank, r.n_rot}, end);
    if (!p.k_out) return;
    store_quads(p.k_out + of_k, front, p.rank);
    store_quads(p.k_out + of_k + p.rank, end, r.n_rot);
}
