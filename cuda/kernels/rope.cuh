// What happens to q, k and v of a head between their projections and attention, by a warp: RMSNorm (where the model has it), rotary
// embedding, and k and v into the cache. The same bits in every kernel.
//
// A warp has a head as quads: lane l elements 4l to 4l + 3 of every 128.
#pragma once
#include "cache.cuh"
#include "quads.cuh"

enum { MAX_HEAD = 512 };
// Of latent attention: elements of a key's front, which is its value too, and of its end, which turns.
enum { MAX_RANK = 512, MAX_TURNING = 128 };

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
    float share;      // 1 / head_dim
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
#pragma unroll
    for (int n = 0; n < N; n++) {
        for (int j = 0; j < 4; j++) squares = fmaf(x[n].v[j], x[n].v[j], squares);
    }
    const float factor = inverse_root(fmaf(warp_sum(squares), p.share, p.eps));
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

// Of each element i below 2·half that of i + half or i - half: another quad of this lane, or one of another lane.
template <int N>
DEVICE void partners(const Quad (&x)[N], Quad (&other)[N], int half) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        const int i = 128 * n + 4 * lane(), partner = i >= half ? i - half : i + half;
        const int from = partner >> 7 & N - 1, of_lane = partner >> 2 & 31;
        // Quads behind the pairs need nothing, and nothing of theirs is needed: the same for all lanes.
        if (n && 128 * n >= 2 * half) continue;
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (k && 128 * k >= 2 * half) continue;
            Quad v = x[k];
            if (half % 128) shuffle(v.v, x[k].v, of_lane);
            for (int j = 0; j < 4; j++) other[n].v[j] = k == 0 || from == k ? v.v[j] : other[n].v[j];
        }
    }
}

// Cosines and sines of the pairs that a lane has elements of.
template <int N>
struct Turn {
    Quad c[N], s[N];
};
template <int N>
DEVICE void load_turn(Turn<N>& to, const RopeKvParams& p, const float* turns) {
    const int half = p.n_rot / 2;
#pragma unroll
    for (int n = 0; n < N; n++) {
        const int i = 128 * n + 4 * lane();
        if (i >= p.n_rot) continue;
        if (p.halves) {
            const int pair = i >= half ? i - half : i;
            to.c[n] = load_quad(turns + pair), to.s[n] = load_quad(turns + half + pair);
        } else {
            const float2 c = *(const float2*)(turns + i / 2), s = *(const float2*)(turns + half + i / 2);
            to.c[n] = {{c.x, c.x, c.y, c.y}}, to.s[n] = {{s.x, s.x, s.y, s.y}};
        }
    }
}

// Turns a head of q or k.
template <int N>
DEVICE void turn(Quad (&x)[N], const RopeKvParams& p, const Turn<N>& by) {
    const int half = p.n_rot / 2;
    Quad other[N];  // the other element of each pair
    if (p.halves) {
        partners(x, other, half);
    } else {
        for (int n = 0; n < N; n++) other[n] = {{x[n].v[1], x[n].v[0], x[n].v[3], x[n].v[2]}};
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        const int i = 128 * n + 4 * lane();
        if (i >= p.n_rot) continue;
        for (int j = 0; j < 4; j++) {
            const int second = p.halves ? i >= half : j % 2;
            const float own = product(x[n].v[j], by.c[n].v[j]), turned = product(other[n].v[j], by.s[n].v[j]);
            x[n].v[j] = second ? fmaf(other[n].v[j], by.s[n].v[j], own) : fmaf(x[n].v[j], by.c[n].v[j], -turned);
        }
    }
}

// Where a key or value goes beside the cache: nowhere.
struct NoCopy {
    __device__ __forceinline__ void put(int, uint2) const {}
    __device__ __forceinline__ void put_scale(int, float) const {}
};

// The elements of a token of a head that a warp has: `count` of `head_dim`, from `first` on, a multiple of 32.
struct Part {
    int head_dim, first, count;
};

// A part of one token of one head into its slot, if `store`; and to `copy`: put(i, elements i to i + 3 of the part in f16, of q8_0 the
// integers) and put_scale(block, scale).
template <int N, class Copy = NoCopy>
DEVICE void append(void* plane, unsigned short* scales, size_t slot, int type, Part part, const Quad (&x)[N], int store = 1, const Copy& copy = {}) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        const int i = 128 * n + 4 * lane(), inside = i < part.count;
        const float* v = x[n].v;
        const size_t at = slot * part.head_dim + part.first + i;
        if (type == CACHE_F16) {
            const uint2 four = {pack_f16(v[0], v[1]), pack_f16(v[2], v[3])};
            if (inside && store) *(uint2*)((unsigned short*)plane + at) = four;
            if (inside) copy.put(i, four);
            continue;
        }
        // Eight lanes have a block; past the end are zeros.
        const float largest = group_max<8>(fmaxf(fmaxf(fabsf(v[0]), fabsf(v[1])), fmaxf(fabsf(v[2]), fabsf(v[3]))));
        const unsigned short scale = f32_to_f16(largest / 127.0f);
        const float d = f16_to_f32(scale), inverse = d > 0.0f ? 1.0f / d : 0.0f;
        unsigned bytes = 0;
        float q[4];
        for (int j = 0; j < 4; j++) {
            q[j] = fminf(fmaxf(roundf(product(v[j], inverse)), -128.0f), 127.0f);
            bytes |= ((unsigned)(int)q[j] & 0xffu) << 8 * j;
        }
        if (!inside) continue;
        if (store) *(unsigned*)((signed char*)plane + at) = bytes;
        copy.put(i, {pack_f16(q[0], q[1]), pack_f16(q[2], q[3])});
        if (lane() % 8) continue;
        if (store) scales[slot * ((part.head_dim + CACHE_BLOCK - 1) / CACHE_BLOCK) + (part.first + i) / CACHE_BLOCK] = scale;
        copy.put_scale(i / CACHE_BLOCK, d);
    }
}
