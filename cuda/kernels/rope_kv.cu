// What happens to q, k and v between their projections and attention, where attention does not do it itself: see rope.cuh.
//
// Grid: ceil((n_head + 2·n_head_kv) / 8) × rows blocks of 256 threads, a warp per head (of queries alone where the cache has keys
// and values already); 9 KB of shared memory, 18 for heads beyond 256. Moves q in and out and k and v in at 4 bytes per element,
// k and v out at 2 (f16) or 1.06 (q8_0).
#include "ptx.cuh"

#include "rope.cuh"

enum { ROPE_WARPS = 8 };

// Heads of at most DIM elements.
template <int DIM>
DEVICE void rope_kv_of(const RopeKvParams& p) {
    constexpr int PER_LANE = DIM / 32;
    SHARED(float2, turn, [DIM / 2]);
    SHARED(float, scratch, [ROPE_WARPS][DIM]);
    int row = blockIdx.y;
    if (p.seq[row] < 0) return;
    angles(p, p.pos[row], turn);
    block_sync();

    int head = blockIdx.x * ROPE_WARPS + warp();
    if (head < p.n_head) {
        size_t at = ((size_t)row * p.n_head + head) * p.head_dim;
        float x[PER_LANE];
        load_head(x, p.q + ((size_t)row * p.n_head + head) * p.q_step, p.head_dim);
        norm_and_turn(x, p, p.q_norm, turn, scratch[warp()]);
        for (int j = 0; j < PER_LANE; j++) {
            int i = lane() + 32 * j;
            if (i < p.head_dim) p.q_out[at + i] = x[j];
        }
    } else if (!p.k) {
        return;
    } else if (head < p.n_head + p.n_head_kv) {
        append_key<PER_LANE>(p, row, head - p.n_head, turn, scratch[warp()]);
    } else if (head < p.n_head + 2 * p.n_head_kv) {
        append_value<PER_LANE>(p, row, head - p.n_head - p.n_head_kv);
    }
}

#define ROPE_KV(NAME, DIM) \
    extern "C" __global__ void __launch_bounds__(256, 2) NAME(const RopeKvParams p) { rope_kv_of<DIM>(p); }
ROPE_KV(rope_kv, 256)
ROPE_KV(rope_kv_512, MAX_HEAD)
#undef ROPE_KV
