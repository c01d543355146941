// The arithmetic of sampling: weights, random numbers, ranks. The specification is the CPU sampler (src/sampler.rs);
// every step here is the same comparison, the same integer operation or the same single rounding.
#pragma once
#include "ptx.cuh"

typedef unsigned long long u64;

static constexpr int SAMPLE_THREADS = 256, SAMPLE_WARPS = SAMPLE_THREADS / 32;
// Tokens that one warp goes through at a time; each chunk has a total of weights of its own.
static constexpr int CHUNK = 512;
// Bins of a histogram, and of a digit of a code.
static constexpr int BINS = 2048, BIN_BITS = 11;
// Bits of a token id in a code, and of a whole code.
static constexpr int ID_BITS = 22, CODE_BITS = 32 + ID_BITS;
static constexpr u64 EVERY_CODE = ~0ull;

// A token's place in the rank as one number: smaller is better. Logit descending, then id ascending.
static __device__ inline u64 code_of(float logit, int token) {
    const unsigned bits = __float_as_uint(sum(logit, 0.0f)); // -0 becomes +0: the two are equal
    const unsigned ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64)~ascending << ID_BITS | (u64)token;
}

static __device__ inline float logit_of(u64 code) {
    const unsigned ascending = ~(unsigned)(code >> ID_BITS);
    return __uint_as_float(ascending & 0x80000000u ? ascending & 0x7FFFFFFFu : ~ascending);
}

static __device__ inline int token_of(u64 code) { return (int)(code & ((1u << ID_BITS) - 1)); }

// The histogram's bin of a logit: 64 bins per unit below the best, the rest in the last one. A better token never
// has a greater bin.
static __device__ inline int bin_of(float best, float logit) {
    const float steps = (best - logit) * 64.0f;
    return steps < (float)(BINS - 1) ? (int)steps : BINS - 1;
}

// floor(2^40 e^x) for x <= 0, by the operations of the CPU's `weight`.
static __device__ inline u64 weight(float x) {
    if (x < -28.0f) return 0; // e^-28 2^40 = 0.76; nor does such an x reach the f64 units, which are few
    const double t = product((double)x, 1.4426950408889634074);
    const int n = (int)sum(t, -0.5);
    const double y = product(sum(t, -(double)n), 0.69314718055994530942);
    double e = 1.0 / 362880.0;
    e = sum(product(e, y), 1.0 / 40320.0);
    e = sum(product(e, y), 1.0 / 5040.0);
    e = sum(product(e, y), 1.0 / 720.0);
    e = sum(product(e, y), 1.0 / 120.0);
    e = sum(product(e, y), 1.0 / 24.0);
    e = sum(product(e, y), 1.0 / 6.0);
    e = sum(product(e, y), 0.5);
    e = sum(product(e, y), 1.0);
    e = sum(product(e, y), 1.0);
    return (u64)(long long)product(e, (double)(1ll << (40 + n)));
}

// Words 0 and 1 of Philox4x32-10 for this key and the counter (position, 0), as one number.
static __device__ inline u64 random_at(u64 seed, u64 position) {
    unsigned key0 = (unsigned)seed, key1 = (unsigned)(seed >> 32);
    unsigned w0 = (unsigned)position, w1 = (unsigned)(position >> 32), w2 = 0, w3 = 0;
    for (int round = 0; round < 10; round++) {
        const u64 even = (u64)0xD2511F53u * w0, odd = (u64)0xCD9E8D57u * w2;
        w0 = (unsigned)(odd >> 32) ^ w1 ^ key0;
        w1 = (unsigned)odd;
        w2 = (unsigned)(even >> 32) ^ w3 ^ key1;
        w3 = (unsigned)even;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return (u64)w0 | (u64)w1 << 32;
}
