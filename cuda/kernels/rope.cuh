// What happens to q, k and v of a head between their projections and attention, by a warp: RMSNorm (where the model has it), rotary
// embedding, and k and v into the cache. The same bits in every kernel.
#pragma once
#include "cache.cuh"

enum { MAX_HEAD = 512 };

struct RopeKvParams {
    const float* q;           // [rows][n_head][q_step], of which the first head_dim
    float* q_out;             // [rows][n_head][head_dim], turned; may be q
    const float* k;           // [rows][n_head_kv][head_dim]; null: the cache has keys and values already
    const float* v;           // the same; may be k
    const float* q_norm;      // [head_dim] or null
    const float* k_norm;      // [head_dim] or null
    const double* frequency;  // [n_rot/2] radians per position
    const int* pos;           // [rows]
    const int* seq;           // [rows]: rows with seq < 0 are skipped
    Cache cache;
    int n_head, n_head_kv;
    int head_dim;  // at most MAX_HEAD
    int n_rot;     // elements of a head that turn, from the front; even
    int halves;    // pairs: 0 (2i, 2i+1), 1 (i, i + n_rot/2)
    float eps;
    float magnitude;  // factor on cosines and sines
    int q_step;       // elements from head to head of q
    int v_norm;       // whether heads of v are normed, without a weight
    int pad;
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

// Cosines and sines of a position's pairs, by the whole block, which has a thread for each; a barrier has to follow.
DEVICE void angles(const RopeKvParams& p, int position, float2* turn) {
    if ((int)threadIdx.x >= p.n_rot / 2) return;
    const float2 t = cos_sin(position, p.frequency[threadIdx.x]);
    turn[threadIdx.x] = {product(t.x, p.magnitude), product(t.y, p.magnitude)};
}

// A head; lane l gets elements l, l+32, …, and zeros past the last.
template <int N>
DEVICE void load_head(float (&x)[N], const float* head, int head_dim) {
    for (int j = 0; j < N; j++) {
        int i = lane() + 32 * j;
        x[j] = i < head_dim ? head[i] : 0.0f;
    }
}

// What a head is multiplied by in its norm.
template <int N>
DEVICE float head_factor(const float (&x)[N], const RopeKvParams& p) {
    float squares = 0.0f;
    for (int j = 0; j < N; j++) squares = fmaf(x[j], x[j], squares);
    return 1.0f / sqrtf(warp_sum(squares) / (float)p.head_dim + p.eps);
}

// Norms and turns a head of q or k. `scratch`: head_dim floats of shared memory that only this warp uses.
template <int N>
DEVICE void norm_and_turn(float (&x)[N], const RopeKvParams& p, const float* norm, const float2* turn, float* scratch) {
    if (norm) {
        float factor = head_factor(x, p);
        for (int j = 0; j < N; j++) {
            int i = lane() + 32 * j;
            if (i < p.head_dim) x[j] = x[j] * factor * norm[i];
        }
    }
    int half = p.n_rot / 2;
    for (int j = 0; j < N; j++) {
        int i = lane() + 32 * j;
        if (i < p.head_dim) scratch[i] = x[j];
    }
    warp_sync();
    for (int pair = lane(); pair < half; pair += 32) {
        int i = p.halves ? pair : 2 * pair, j = p.halves ? pair + half : 2 * pair + 1;
        float a = scratch[i], b = scratch[j], c = turn[pair].x, s = turn[pair].y;
        scratch[i] = fmaf(a, c, -product(b, s));
        scratch[j] = fmaf(a, s, product(b, c));
    }
    warp_sync();
    for (int j = 0; j < N; j++) {
        int i = lane() + 32 * j;
        if (i < p.head_dim) x[j] = scratch[i];
    }
    warp_sync();  // the next head may go there
}

// One token of one head into its slot, laid out over the lanes as by load_head.
template <int N>
DEVICE void append(void* plane, unsigned short* scales, size_t slot, int type, int head_dim, const float (&x)[N]) {
    size_t at = slot * head_dim;
    for (int j = 0; j < N; j++) {
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

// Key of a head, normed and turned, into its row's slot.
template <int N>
DEVICE void append_key(const RopeKvParams& p, int row, int head, const float2* turn, float* scratch) {
    float x[N];
    load_head(x, p.k + ((size_t)row * p.n_head_kv + head) * p.head_dim, p.head_dim);
    norm_and_turn(x, p, p.k_norm, turn, scratch);
    size_t slot = cache_slot(p.cache, p.seq[row], p.pos[row], head, p.n_head_kv);
    append(p.cache.k, p.cache.k_scale, slot, p.cache.type, p.head_dim, x);
}

// Value of a head, as it is or normed.
template <int N>
DEVICE void append_value(const RopeKvParams& p, int row, int head) {
    float x[N];
    load_head(x, p.v + ((size_t)row * p.n_head_kv + head) * p.head_dim, p.head_dim);
    if (p.v_norm) {
        float factor = head_factor(x, p);
        for (int j = 0; j < N; j++) x[j] *= factor;
    }
    size_t slot = cache_slot(p.cache, p.seq[row], p.pos[row], head, p.n_head_kv);
    append(p.cache.v, p.cache.v_scale, slot, p.cache.type, p.head_dim, x);
}
