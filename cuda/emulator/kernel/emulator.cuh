// The g++ half of kernels/ptx.cuh: CUDA's built-in names and the hardware's words, as calls of the emulator's runtime.
#pragma once
#include <math.h>
#include <string.h>

#include "abi.h"
#include "builtins.cuh"

#define SITE emu::Site site = emu::Site::here() // of the caller

#define SHARED(T, name, ...)                                                                             \
    typedef T name##_array __VA_ARGS__;                                                                  \
    static char name##_key;                                                                              \
    name##_array& name = *static_cast<name##_array*>(emu_shared(&name##_key, sizeof(name##_array), #name))
#define DYN_SHARED(T, name) T* const name = static_cast<T*>(emu_dynamic_shared())

namespace emu {

template <class T> inline uint64_t bits(T v) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes exchange 4 or 8 bytes");
    uint64_t b = 0;
    memcpy(&b, &v, sizeof v);
    return b;
}
template <class T> inline T from_bits(uint64_t b) {
    T v;
    memcpy(&v, &b, sizeof v);
    return v;
}
template <class T> inline T warp(Op op, T v, int argument, Site site) {
    return from_bits<T>(emu_warp(op, bits(v), argument, site));
}
inline void warp(Op op, void* c, const void* a, const void* b, int count, Site site) {
    Fragments f{c, a, b, count};
    emu_warp(op, reinterpret_cast<uint64_t>(&f), 0, site);
}

} // namespace emu

DEVICE void block_sync(SITE) { emu_block_sync(site); }
DEVICE void warp_sync(SITE) { emu_warp(emu::Op::Sync, 0, 0, site); }

DEVICE int uniform(int v) { return v; }
template <class T> DEVICE T shuffle(T v, int lane, SITE) { return emu::warp(emu::Op::Shuffle, v, lane & 31, site); }
template <class T> DEVICE T shuffle_xor(T v, int mask, SITE) {
    return emu::warp(emu::Op::Shuffle, v, ((threadIdx.x & 31) ^ mask) & 31, site);
}
template <class T> DEVICE T shuffle_down(T v, int delta, SITE) {
    const int source = static_cast<int>(threadIdx.x & 31) + delta;
    return emu::warp(emu::Op::Shuffle, v, source > 31 ? threadIdx.x & 31 : source, site);
}
template <int N, class T> DEVICE void shuffle(T (&to)[N], const T (&v)[N], int lane, SITE) {
    static_assert(sizeof(T) == 4, "words");
    emu::Fragments f{to, v, nullptr, N};
    emu_warp(emu::Op::ShuffleWords, reinterpret_cast<uint64_t>(&f), lane & 31, site);
}
DEVICE unsigned ballot(int predicate, SITE) {
    return static_cast<unsigned>(emu_warp(emu::Op::Ballot, predicate != 0, 0, site));
}

DEVICE float warp_sum(float v, SITE) { return emu::warp(emu::Op::SumF32, v, 0, site); }
DEVICE int warp_sum(int v, SITE) { return emu::warp(emu::Op::SumI32, v, 0, site); }
DEVICE unsigned warp_sum(unsigned v, SITE) { return emu::warp(emu::Op::SumU32, v, 0, site); }
DEVICE unsigned long long warp_sum(unsigned long long v, SITE) { return emu::warp(emu::Op::SumU64, v, 0, site); }
DEVICE float warp_max(float v, SITE) { return emu::warp(emu::Op::MaxF32, v, 0, site); }
DEVICE int warp_max(int v, SITE) { return emu::warp(emu::Op::MaxI32, v, 0, site); }
DEVICE unsigned warp_max(unsigned v, SITE) { return emu::warp(emu::Op::MaxU32, v, 0, site); }
DEVICE unsigned long long warp_max(unsigned long long v, SITE) { return emu::warp(emu::Op::MaxU64, v, 0, site); }

template <int N> DEVICE float group_sum(float v, SITE) { return emu::warp(emu::Op::GroupSumF32, v, N, site); }
template <int N> DEVICE int group_sum(int v, SITE) { return emu::warp(emu::Op::GroupSumI32, v, N, site); }
template <int N> DEVICE float group_max(float v, SITE) { return emu::warp(emu::Op::GroupMaxF32, v, N, site); }
template <int N> DEVICE unsigned group_max(unsigned v, SITE) { return emu::warp(emu::Op::GroupMaxU32, v, N, site); }

DEVICE unsigned permute_bytes(unsigned a, unsigned b, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    unsigned chosen = 0;
    for (int i = 0; i < 4; i++) chosen |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return chosen;
}

DEVICE void mma_s8_m8n8k16(int c[2], unsigned a, unsigned b, SITE) { emu::warp(emu::Op::MmaS8M8N8K16, c, &a, &b, 1, site); }
DEVICE void mma_s8_m8n8k16_from(int start, int c[2], unsigned a, unsigned b, SITE) {
    c[0] = c[1] = start;
    emu::warp(emu::Op::MmaS8M8N8K16, c, &a, &b, 1, site);
}
DEVICE void mma_f16_m16n8k8(float c[4], unsigned a0, unsigned a1, unsigned b, SITE) {
    const unsigned a[2] = {a0, a1};
    emu::warp(emu::Op::MmaF16M16N8K8, c, a, &b, 1, site);
}
// Fast kernels of SM 7.5 take one of these where the GPU takes several instructions: the same bits.
#if __CUDA_ARCH__ >= 800 || FAST_EMULATION
DEVICE void mma_s8_m16n8k16_from(int start, int c[4], const unsigned a[2], unsigned b, SITE) {
    c[0] = c[1] = c[2] = c[3] = start;
    emu::warp(emu::Op::MmaS8M16N8K16, c, a, &b, 1, site);
}
DEVICE void mma_s8_m16n8k32_from(int start, int c[4], const unsigned a[4], const unsigned b[2], SITE) {
    c[0] = c[1] = c[2] = c[3] = start;
    emu::warp(emu::Op::MmaS8M16N8K32, c, a, b, 1, site);
}
#endif
DEVICE void mma_f16_m16n8k8_twice(float c[4], const unsigned a[4], const unsigned b[2], SITE) {
    emu::warp(emu::Op::MmaF16M16N8K8Twice, c, a, b, 1, site);
}
#if __CUDA_ARCH__ >= 800
DEVICE void mma_f16_m16n8k16(float c[4], const unsigned a[4], const unsigned b[2], SITE) {
    emu::warp(emu::Op::MmaF16M16N8K16, c, a, b, 1, site);
}
DEVICE void mma_bf16_m16n8k16(float c[4], const unsigned a[4], const unsigned b[2], SITE) {
    emu::warp(emu::Op::MmaBf16M16N8K16, c, a, b, 1, site);
}
#endif

// Products of SM 8.0, or of SM 7.5 two for one, as one collective.
template <int N, class P> DEVICE void mma_f16_m16n8k16_all(const P (&products)[N], SITE) {
    emu::Fragments f[N];
    for (int i = 0; i < N; i++) f[i] = {products[i].c, products[i].a, products[i].b, N};
    const emu::Op op = __CUDA_ARCH__ >= 800 ? emu::Op::MmaF16M16N8K16 : emu::Op::MmaF16M16N8K8Twice;
    emu_warp(op, reinterpret_cast<uint64_t>(f), 0, site);
}

DEVICE void ldmatrix_x4(unsigned r[4], const void* row, SITE) { emu::warp(emu::Op::Ldmatrix, r, row, nullptr, 4, site); }
DEVICE void ldmatrix_x2(unsigned r[2], const void* row, SITE) { emu::warp(emu::Op::Ldmatrix, r, row, nullptr, 2, site); }
DEVICE void ldmatrix_x4_trans(unsigned r[4], const void* row, SITE) {
    emu::warp(emu::Op::LdmatrixTransposed, r, row, nullptr, 4, site);
}
DEVICE void ldmatrix_x2_trans(unsigned r[2], const void* row, SITE) {
    emu::warp(emu::Op::LdmatrixTransposed, r, row, nullptr, 2, site);
}

DEVICE void cp_async16(void* shared, const void* global, int valid) {
#if __CUDA_ARCH__ >= 800
    emu_copy_async(shared, global, valid);
#else
    *static_cast<uint4*>(shared) = valid ? *static_cast<const uint4*>(global) : make_uint4(0, 0, 0, 0);
#endif
}
DEVICE void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
    emu_copy_commit();
#endif
}
template <int N> DEVICE void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
    emu_copy_wait(N);
#endif
}

// As wide as on the GPU, also where only a part of the value is used.
DEVICE uint4 load_weights16(const void* p) {
    typedef unsigned Wide __attribute__((vector_size(16), may_alias));
    Wide v = *static_cast<const Wide*>(p);
    asm("" : "+x"(v));
    return {v[0], v[1], v[2], v[3]};
}
DEVICE uint2 load_weights8(const void* p) {
    typedef uint64_t Wide __attribute__((may_alias));
    Wide v = *static_cast<const Wide*>(p);
    asm("" : "+r"(v));
    return {static_cast<unsigned>(v), static_cast<unsigned>(v >> 32)};
}
DEVICE unsigned load_weights4(const void* p) { return *static_cast<const unsigned*>(p); }
DEVICE unsigned load_weights2(const void* p) { return *static_cast<const unsigned short*>(p); }
DEVICE unsigned load_weights1(const void* p) { return *static_cast<const unsigned char*>(p); }

// Blocks run one after another and nothing interrupts a fiber: an atomic is a check, a load and a store. Each is a function
// of its own in checked kernels, so its return address is the kernel's.
#define ATOMIC(name, next)                                                  \
    template <class T> UNCHECKED T name(T* p, T v) {                        \
        emu_atomic_access(p, sizeof(T), __builtin_return_address(0));       \
        const T old = *p;                                                   \
        *p = next;                                                          \
        return old;                                                         \
    }
ATOMIC(atomic_add, static_cast<T>(old + v))
ATOMIC(atomic_max, old > v ? old : v)
ATOMIC(atomic_min, old < v ? old : v)
#undef ATOMIC
DEVICE int last_block(unsigned* ticket, unsigned blocks, SITE) { return emu_last_block(ticket, blocks, site); }

template <class T> DEVICE void system_store(T* p, T v) {
    *p = v;
    emu_publish(p);
}
DEVICE void system_fence() { emu_publish(nullptr); }
UNCHECKED void prefetch_l2(const void* p) { emu_prefetch(p, __builtin_return_address(0)); }
DEVICE void depend_wait() { emu_depend_wait(); }
DEVICE void depend_launch() {}

DEVICE float f16_to_f32(unsigned short h) { return emu::half_to_float(h); }
DEVICE unsigned short f32_to_f16(float f) { return emu::float_to_half(f); }

#ifdef SILICON
// Up to 2 ULP beside the exact value, and exactly 1 at 0 (PTX manual, ex2.approx).
DEVICE float fast_exp2(float x) {
    const float y = exp2f(x);
    const unsigned bits = __float_as_uint(y), off = __float_as_uint(x) * 2654435761u >> 24;
    if (x == 0.0f || bits < 0x00800004u || bits > 0x7f7ffff0u) return y;
    return __uint_as_float(bits + off % 5 - 2);
}
#else
DEVICE float fast_exp2(float x) { return exp2f(x); }
#endif
DEVICE float fast_rsqrt(float x) { return 1.0f / sqrtf(x); }
DEVICE float fast_reciprocal(float x) { return 1.0f / x; }

// A value that no fused operation reaches through.
template <class T> DEVICE T rounded(T v) {
    asm("" : "+x"(v));
    return v;
}
DEVICE float product(float a, float b) { return rounded(a * b); }
DEVICE float sum(float a, float b) { return rounded(a) + rounded(b); }
DEVICE double product(double a, double b) { return rounded(a * b); }
DEVICE double sum(double a, double b) { return rounded(a) + rounded(b); }
