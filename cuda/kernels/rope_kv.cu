// What happens to q, k and v between their projections and attention: RMSNorm per head (where the model
// has it), rotary embedding, and k and v into the cache.
//
// Grid: ceil((n_head + 2·n_head_kv) / 8) × rows blocks of 256 threads, a warp per head; 9 KB of shared memory. Moves q in and out and k and v in at
// 4 bytes per element, k and v out at 2 (f16) or 1.06 (q8_0).
#include "ptx.cuh"

#include "cache.cuh"

enum { ROPE_WARPS = 8, MAX_HEAD = 256, PER_LANE = MAX_HEAD / 32 };

struct rope_kvParams {
    const float* q;           // [rows][n_head][head_dim]
    float* q_out;             // the same, turned; may be q
    const float* k;           // [rows][n_head_kv][head_dim]
    const float* v;           // the same
    const float* q_norm;      // [head_dim] or null
    const float* k_norm;      // [head_dim] or null
    const double* frequency;  // [n_rot/2] radians per position
    const int* pos;           // [rows]
    const int* seq;           // [rows]: rows with seq < 0 are skipped
    Cache cache;
    int n_head, n_head_kv;
    int head_dim;  // at most 256
    int n_rot;     // elements of a head that turn, from the front; even
    int halves;    // pairs: 0 (2i, 2i+1), 1 (i, i + n_rot/2)
    float eps;
};

// Sine and cosine of position·frequency. The angle is reduced to ±π/4 in f64, so the error does not grow
// with the position: below 2e-7.
DEVICE float2 cos_sin(int position, double frequency) {
    double angle = (double)position * frequency;
    double turns = rint(angle * 0.63661977236758134308);  // quarters
    float x = (float)(angle - turns * 1.57079632679489661923);
    float y = x * x;
    float s = x + x * y * (-1.6666667e-1f + y * (8.3333333e-3f + y * (-1.9841270e-4f + y * 2.7557319e-6f)));
    float c = 1.0f + y * (-0.5f + y * (4.1666667e-2f + y * (-1.3888889e-3f + y * 2.4801587e-5f)));
    int quarter = (int)turns & 3;
    float cosine = quarter & 1 ? s : c, sine = quarter & 1 ? c : s;
    return {(quarter + 1) & 2 ? -cosine : cosine, quarter & 2 ? -sine : sine};
}

// One token of one head into its slot; lane l holds elements l, l+32, …
DEVICE void append(void* plane, unsigned short* scales, size_t slot, int type, int head_dim,
                                              const float* x) {
    size_t at = slot * head_dim;
    for (int j = 0; j < PER_LANE; j++) {
        int i = lane() + 32 * j;
        if (32 * j >= head_dim) break;
        if (type == CACHE_F16) {
            if (i < head_dim) ((unsigned short*)plane)[at + i] = f32_to_f16(x[j]);
            continue;
        }
        float largest = warp_max(i < head_dim ? fabsf(x[j]) : 0.0f);
        unsigned short scale = f32_to_f16(largest / 127.0f);
        float d = f16_to_f32(scale);
        float q = roundf(d > 0.0f ? x[j] * (1.0f / d) : 0.0f);
        if (i < head_dim) ((signed char*)plane)[at + i] = (signed char)fminf(fmaxf(q, -128.0f), 127.0f);
        if (lane() == 0) scales[slot * ((head_dim + CACHE_BLOCK - 1) / CACHE_BLOCK) + j] = scale;
    }
}

extern "C" __global__ void __launch_bounds__(256) rope_kv(const rope_kvParams p) {
    SHARED(float2, turn, [MAX_HEAD / 2]);
    SHARED(float, heads, [ROPE_WARPS][MAX_HEAD]);
    int row = blockIdx.y, seq = p.seq[row], half = p.n_rot / 2;
    if (seq < 0) return;
    int position = p.pos[row];
    if (threadIdx.x < half) turn[threadIdx.x] = cos_sin(position, p.frequency[threadIdx.x]);
    block_sync();

    int head = blockIdx.x * ROPE_WARPS + warp();
    if (head >= p.n_head + 2 * p.n_head_kv) return;
    int is_q = head < p.n_head, is_v = head >= p.n_head + p.n_head_kv;
    int head_kv = (head - p.n_head) % p.n_head_kv;
    const float* from = is_q ? p.q + ((size_t)row * p.n_head + head) * p.head_dim
                           : (is_v ? p.v : p.k) + ((size_t)row * p.n_head_kv + head_kv) * p.head_dim;
    float x[PER_LANE];
    for (int j = 0; j < PER_LANE; j++) {
        int i = lane() + 32 * j;
        x[j] = i < p.head_dim ? from[i] : 0.0f;
    }
    if (is_v) {
        size_t slot = cache_slot(p.cache, seq, position, head_kv, p.n_head_kv);
        append(p.cache.v, p.cache.v_scale, slot, p.cache.type, p.head_dim, x);
        return;
    }
    const float* norm = is_q ? p.q_norm : p.k_norm;
    if (norm) {
        float squares = 0.0f;
        for (int j = 0; j < PER_LANE; j++) squares += x[j] * x[j];
        float factor = 1.0f / sqrtf(warp_sum(squares) / (float)p.head_dim + p.eps);
        for (int j = 0; j < PER_LANE; j++) {
            int i = lane() + 32 * j;
            if (i < p.head_dim) x[j] = x[j] * factor * __uint_as_float(load_weights4(norm + i));
        }
    }
    float* mine = heads[warp()];
    for (int j = 0; j < PER_LANE; j++) {
        int i = lane() + 32 * j;
        if (i < p.head_dim) mine[i] = x[j];
    }
    warp_sync();
    for (int pair = lane(); pair < half; pair += 32) {
        int i = p.halves ? pair : 2 * pair, j = p.halves ? pair + half : 2 * pair + 1;
        float a = mine[i], b = mine[j], c = turn[pair].x, s = turn[pair].y;
        mine[i] = a * c - b * s;
        mine[j] = a * s + b * c;
    }
    warp_sync();
    for (int j = 0; j < PER_LANE; j++) {
        int i = lane() + 32 * j;
        if (i < p.head_dim) x[j] = mine[i];
    }
    if (is_q) {
        float* to = p.q_out + ((size_t)row * p.n_head + head) * p.head_dim;
        for (int j = 0; j < PER_LANE; j++) {
            int i = lane() + 32 * j;
            if (i < p.head_dim) to[i] = x[j];
        }
    } else {
        size_t slot = cache_slot(p.cache, seq, position, head_kv, p.n_head_kv);
        append(p.cache.k, p.cache.k_scale, slot, p.cache.type, p.head_dim, x);
    }
}
