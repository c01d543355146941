// What happens to q, k and v of a head between their projections and attention, by a warp: RMSNorm (where the model has it), rotary
// embedding, and k and v into the cache. The same bits in every kernel.
//
// A warp has a head as quads: lane l elements 4l to 4l + 3 of every 128.
#pragma once
#include "cache.cuh"
#include "quads.cuh"

enum { MAX_HEAD = 512 };

struct RopeKvParams {
    const float* q;           // [rows][n_head][q_step], of which the first head_dim
    float* q_out;             // [rows][n_head][head_dim], turned; may be q
    const float* k;           // [rows][n_head_kv][head_dim]; null: the cache has keys and values already
    const float* v;           // the same; may be k
    const float* q_norm;      // [head_dim] or null
    const float* k_norm;      // [head_dim] or null
    const unsigned long long* frequency;  // [n_rot/2] 2^64ths of a turn per position
    const int* pos;           // [rows]
    const int* seq;           // [rows]: rows with seq < 0 are skipped
    Cache cache;
    int n_head, n_head_kv;
    int head_dim;  // a multiple of 4, at most MAX_HEAD
    int n_rot;     // elements of a head that turn, from the front; a multiple of 4, of 8 where halves pair
    int halves;    // pairs: 0 (2i, 2i+1), 1 (i, i + n_rot/2)
    float eps;
    float magnitude;  // factor on cosines and sines
    int q_step;       // elements from head to head of q
    int v_norm;       // whether heads of v are normed, without a weight
    int pad;
};

// Cosine and sine of position·frequency. Whole turns drop out of the product, which is exact, so the error does not grow with the
// position: below 2e-7.
DEVICE float2 cos_sin(int position, unsigned long long frequency) {
    const unsigned turn = (unsigned)(frequency * (unsigned)position >> 32);
    const unsigned quarter = (turn + 0x20000000u) >> 30;
    const float x = product((float)(int)(turn - (quarter << 30)), 1.46291808e-9f);  // 2π / 2^32, within ±π/4
    const float y = product(x, x);
    const float s = fmaf(product(x, y), fmaf(y, fmaf(y, fmaf(y, 2.7557319e-6f, -1.9841270e-4f), 8.3333333e-3f), -1.6666667e-1f), x);
    const float c = fmaf(y, fmaf(y, fmaf(y, fmaf(y, 2.4801587e-5f, -1.3888889e-3f), 4.1666667e-2f), -0.5f), 1.0f);
    const float cosine = quarter & 1 ? s : c, sine = quarter & 1 ? c : s;
    return {(quarter + 1) & 2 ? -cosine : cosine, quarter & 2 ? -sine : sine};
}

// Norms a head, with weights where there are some.
template <int N>
DEVICE void norm_head(Quad (&x)[N], const RopeKvParams& p, const Quad (&weight)[N], int weighted) {
    float squares = 0.0f;
    for (int n = 0; n < N; n++) {
        for (int j = 0; j < 4; j++) squares = fmaf(x[n].v[j], x[n].v[j], squares);
    }
    const float factor = 1.0f / sqrtf(warp_sum(squares) / (float)p.head_dim + p.eps);
    for (int n = 0; n < N; n++) {
        for (int j = 0; j < 4; j++) x[n].v[j] = product(product(x[n].v[j], factor), weighted ? weight[n].v[j] : 1.0f);
    }
}

// Cosines of a position's pairs, and behind them the sines: of pair i.
DEVICE void store_turn(const RopeKvParams& p, float* turns, int i, int position, unsigned long long frequency) {
    const float2 t = cos_sin(position, frequency);
    turns[i] = product(t.x, p.magnitude);
    turns[p.n_rot / 2 + i] = product(t.y, p.magnitude);
}

// Turns a head of q or k. `scratch`: head_dim floats of shared memory that only this warp uses.
template <int N>
DEVICE void turn(Quad (&x)[N], const RopeKvParams& p, const float* turns, float* scratch) {
    const int half = p.n_rot / 2;
    if (p.halves) {
        store_quads(scratch, x, p.head_dim);
        warp_sync();
    }
    for (int n = 0; n < N; n++) {
        const int i = 128 * n + 4 * lane();
        if (i >= p.n_rot) continue;
        if (p.halves) {
            const unsigned second = i >= half, pair = second ? i - half : i, partner = second ? pair : pair + half;
            const Quad other = load_quad(scratch + partner);
            const Quad c = load_quad(turns + pair), s = load_quad(turns + half + pair);
            for (int j = 0; j < 4; j++) {
                const float own = x[n].v[j], b = other.v[j];
                x[n].v[j] = second ? fmaf(b, s.v[j], product(own, c.v[j])) : fmaf(own, c.v[j], -product(b, s.v[j]));
            }
        } else {
            const float2 cosines = *(const float2*)(turns + i / 2), sines = *(const float2*)(turns + half + i / 2);
            const float c[2] = {cosines.x, cosines.y}, s[2] = {sines.x, sines.y};
            for (int k = 0; k < 2; k++) {
                const float a = x[n].v[2 * k], b = x[n].v[2 * k + 1];
                x[n].v[2 * k] = fmaf(a, c[k], -product(b, s[k]));
                x[n].v[2 * k + 1] = fmaf(a, s[k], product(b, c[k]));
            }
        }
    }
    if (p.halves) warp_sync();  // the next head may go there
}

// One token of one head into its slot.
template <int N>
DEVICE void append(void* plane, unsigned short* scales, size_t slot, int type, int head_dim, const Quad (&x)[N]) {
    for (int n = 0; n < N; n++) {
        const int i = 128 * n + 4 * lane(), inside = i < head_dim;
        const float* v = x[n].v;
        const size_t at = slot * head_dim + i;
        if (type == CACHE_F16) {
            if (inside) *(uint2*)((unsigned short*)plane + at) = {pack_f16(v[0], v[1]), pack_f16(v[2], v[3])};
            continue;
        }
        // Eight lanes have a block; past the end of the head are zeros.
        float largest = fmaxf(fmaxf(fabsf(v[0]), fabsf(v[1])), fmaxf(fabsf(v[2]), fabsf(v[3])));
        for (int mask = 1; mask < 8; mask *= 2) largest = fmaxf(largest, shuffle_xor(largest, mask));
        const unsigned short scale = f32_to_f16(largest / 127.0f);
        const float d = f16_to_f32(scale), inverse = d > 0.0f ? 1.0f / d : 0.0f;
        unsigned bytes = 0;
        for (int j = 0; j < 4; j++) {
            const float q = fminf(fmaxf(roundf(product(v[j], inverse)), -128.0f), 127.0f);
            bytes |= ((unsigned)(int)q & 0xffu) << 8 * j;
        }
        if (inside) *(unsigned*)((signed char*)plane + at) = bytes;
        if (inside && lane() % 8 == 0) scales[slot * ((head_dim + CACHE_BLOCK - 1) / CACHE_BLOCK) + i / CACHE_BLOCK] = scale;
    }
}
