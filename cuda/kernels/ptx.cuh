// Every word of the hardware that the kernels use, and nothing else.
//
// Under NVRTC this file is CUDA with inline PTX for SM 7.5 to 12.0; under g++ the same names come from the emulator
// (cuda/emulator/kernel/emulator.cuh), so a kernel that includes only this file runs on a GPU and in `cargo test`.
// Instructions that differ between the halves come first; what is composed of them is shared by both and comes last.
#pragma once

// What SM 8.0 brought: tensor cores that multiply bf16, copies to shared memory that go on beside the block's work.
#if __CUDA_ARCH__ >= 800
#define HAS_BF16_MMA 1
#define HAS_CP_ASYNC 1
#else
#define HAS_BF16_MMA 0
#define HAS_CP_ASYNC 0
#endif

// Kernels that start before their predecessor has ended: what SM 9.0 brought. The emulator compiles both sides.
#if __CUDA_ARCH__ >= 900 || !defined(__CUDACC__) && __CUDA_ARCH__ >= 800
#define HAS_DEPENDENT_LAUNCH 1
#else
#define HAS_DEPENDENT_LAUNCH 0
#endif

// From SM 8.6 on integers become floats at half the rate of additions; before, at an eighth.
#if __CUDA_ARCH__ >= 860
#define FAST_INT_TO_FLOAT 1
#else
#define FAST_INT_TO_FLOAT 0
#endif

#ifndef __CUDACC__
#include "emulator.cuh"
#else

#define DEVICE static __device__ __forceinline__
#define INFINITY __int_as_float(0x7f800000)

// Shared memory: SHARED(float, tile, [8][33]) is an array that is aligned to 16 bytes, DYN_SHARED(float, scores) a pointer to
// the dynamic part (one per kernel).
#define SHARED(T, name, ...) __shared__ __align__(16) T name __VA_ARGS__
#define DYN_SHARED(T, name)                                      \
    extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
    T* const name = reinterpret_cast<T*>(dynamic_shared)

constexpr unsigned ALL_LANES = 0xffffffffu;

DEVICE void block_sync() { __syncthreads(); }
DEVICE void warp_sync() { __syncwarp(); }

// Lanes exchange 4- or 8-byte values; all 32 lanes must take part.
template <class T> DEVICE T shuffle(T v, int lane) { return __shfl_sync(ALL_LANES, v, lane); }
template <class T> DEVICE T shuffle_xor(T v, int mask) { return __shfl_xor_sync(ALL_LANES, v, mask); }
template <class T> DEVICE T shuffle_down(T v, int delta) { return __shfl_down_sync(ALL_LANES, v, delta); }
template <int N, class T> DEVICE void shuffle(T (&to)[N], const T (&v)[N], int lane) {
    for (int i = 0; i < N; i++) to[i] = __shfl_sync(ALL_LANES, v[i], lane);
}
DEVICE unsigned ballot(int predicate) { return __ballot_sync(ALL_LANES, predicate); }
// A value that is the same in all lanes, and that the compiler knows to be.
DEVICE int uniform(int v) { return __shfl_sync(ALL_LANES, v, 0); }

// Sums and maxima over a warp in one fixed order (butterfly: 16, 8, 4, 2, 1); every lane gets the result.
template <class T> DEVICE T warp_sum(T v) {
    for (int mask = 16; mask; mask >>= 1) v += __shfl_xor_sync(ALL_LANES, v, mask);
    return v;
}
DEVICE float warp_max(float v) {
    for (int mask = 16; mask; mask >>= 1) v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, mask));
    return v;
}
template <class T> DEVICE T warp_max(T v) {
    for (int mask = 16; mask; mask >>= 1) v = max(v, __shfl_xor_sync(ALL_LANES, v, mask));
    return v;
}

// The same over each N neighbouring lanes, the nearest first: 1, 2, 4 …
template <int N, class T> DEVICE T group_sum(T v) {
    for (int mask = 1; mask < N; mask *= 2) v += __shfl_xor_sync(ALL_LANES, v, mask);
    return v;
}
template <int N> DEVICE float group_max(float v) {
    for (int mask = 1; mask < N; mask *= 2) v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, mask));
    return v;
}
template <int N> DEVICE unsigned group_max(unsigned v) {
    for (int mask = 1; mask < N; mask *= 2) v = max(v, __shfl_xor_sync(ALL_LANES, v, mask));
    return v;
}

// Four of the eight bytes of a (0..3) and b (4..7), chosen by the low four nibbles (0..7) of the selector.
DEVICE unsigned permute_bytes(unsigned a, unsigned b, unsigned selector) { return __byte_perm(a, b, selector); }

// Tensor cores, one instruction each. Fragments as in the PTX manual: with g = lane/4 and t = lane%4, a0 holds row g,
// a1 row g+8; 8-bit operands hold k = 4t..4t+3, 16-bit operands k = 2t, 2t+1; c0,c1 are columns 2t, 2t+1 of row g.
DEVICE void mma_s8_m8n8k16(int c[2], unsigned a, unsigned b) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1]) : "r"(a), "r"(b));
}
// The same from `start` in every element of c.
DEVICE void mma_s8_m8n8k16_from(int start, int c[2], unsigned a, unsigned b) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%4};"
                 : "=r"(c[0]), "=r"(c[1]) : "r"(a), "r"(b), "r"(start));
}
DEVICE void mma_f16_m16n8k8(float c[4], unsigned a0, unsigned a1, unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b));
}
#if __CUDA_ARCH__ >= 800
DEVICE void mma_s8_m16n8k16_from(int start, int c[4], const unsigned a[2], unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b), "r"(start));
}
DEVICE void mma_s8_m16n8k32_from(int start, int c[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start));
}
DEVICE void mma_f16_m16n8k16(float c[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_bf16_m16n8k16(float c[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

DEVICE unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// 8×8 matrices of 16-bit elements: lane i gives the 16-byte aligned address of row i%8 of matrix i/8.
DEVICE void ldmatrix_x4(unsigned r[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
DEVICE void ldmatrix_x2(unsigned r[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}
DEVICE void ldmatrix_x4_trans(unsigned r[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
DEVICE void ldmatrix_x2_trans(unsigned r[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}

// Copies 16 bytes from global to shared memory, or writes zeros where `valid` is 0. Arrives at `cp_async_wait` of its
// group (and, for the other threads of the block, at the barrier after that); below SM 8.0 it is a plain copy.
DEVICE void cp_async16(void* shared, const void* global, int valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(shared)), "l"(global), "r"(valid ? 16 : 0) : "memory");
#else
    *static_cast<uint4*>(shared) = valid ? *static_cast<const uint4*>(global) : make_uint4(0, 0, 0, 0);
#endif
}
DEVICE void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most `N` of this thread's latest groups are still under way.
template <int N> DEVICE void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}

// Loads of weights: read-only for the whole kernel, aligned to their size, wide ones without keeping them in L1.
DEVICE uint4 load_weights16(const void* p) {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
DEVICE uint2 load_weights8(const void* p) {
    uint2 v;
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
DEVICE unsigned load_weights4(const void* p) {
    unsigned v;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
DEVICE unsigned load_weights2(const void* p) {
    unsigned short v;
    asm("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}
DEVICE unsigned load_weights1(const void* p) {
    unsigned v;
    asm("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

// Atomics on global or shared memory, relaxed; they return the old value.
template <class T> DEVICE T atomic_add(T* p, T v) { return atomicAdd(p, v); }
template <class T> DEVICE T atomic_max(T* p, T v) { return atomicMax(p, v); }
template <class T> DEVICE T atomic_min(T* p, T v) { return atomicMin(p, v); }

// Counts the blocks that arrive at `ticket` (0 before the launch): nonzero in every thread of the block that arrives last
// of `blocks`, which then sees what the others wrote before they arrived. The ticket is 0 again afterwards.
DEVICE int last_block(unsigned* ticket, unsigned blocks) {
    __syncthreads();
    int last = 0;
    if (threadIdx.x == 0) {
        // What the block's other threads wrote came before the barrier, and so before this fence.
        __threadfence();
        last = atomicAdd(ticket, 1u) == blocks - 1;
        if (last) *ticket = 0;
        __threadfence();
    }
    return __syncthreads_or(last);
}

// Stores to pinned host memory, for a host that polls: one that sees a store behind a fence sees those before it.
DEVICE void system_store(unsigned* p, unsigned v) { asm volatile("st.volatile.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEVICE void system_store(uint4* p, uint4 v) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" :: "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEVICE void system_fence() { __threadfence_system(); }

DEVICE void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }

// Dependent launch: every thread calls `depend_wait` before it touches what a kernel since the last full boundary wrote, and
// before it ends; `depend_launch` when the next kernel may start. No-ops below SM 9.0 and in launches without the attribute.
DEVICE void depend_wait() {
#if HAS_DEPENDENT_LAUNCH
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEVICE void depend_launch() {
#if HAS_DEPENDENT_LAUNCH
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

DEVICE float f16_to_f32(unsigned short h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
// Rounds to nearest even, as all conversions here.
DEVICE unsigned short f32_to_f16(float f) {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

DEVICE float fast_exp2(float x) { // 2 ULP; denormal results are 0
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE float fast_rsqrt(float x) { // 2 ULP; infinite for denormal x
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE float fast_reciprocal(float x) { // 1 ULP; 0 for huge x
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// One rounding each: never contracted into a fused multiply-add.
DEVICE float product(float a, float b) { return __fmul_rn(a, b); }
DEVICE float sum(float a, float b) { return __fadd_rn(a, b); }
DEVICE double product(double a, double b) { return __dmul_rn(a, b); }
DEVICE double sum(double a, double b) { return __dadd_rn(a, b); }

#endif // __CUDACC__

// Asks L2 for bytes that a block is about to load.
DEVICE void prefetch(const void* from, int bytes) {
    constexpr int SECTOR = 32;
    for (int i = SECTOR * threadIdx.x; i < bytes; i += SECTOR * blockDim.x) prefetch_l2((const char*)from + i);
}

// Blocks are one-dimensional.
DEVICE int lane() { return threadIdx.x & 31; }
DEVICE int warp() { return threadIdx.x >> 5; }
// The same where all lanes ask: what depends on it is no divergence, and shuffles behind it need no check. Asked for once, and kept.
DEVICE int uniform_warp() { return uniform(threadIdx.x >> 5); }

// c[16×8] = start + a[16×32] · b[32×8], 8-bit. a: rows g, g+8 for k = 4t.., then the same for k = 16+4t..; b: k = 4t.., 16+4t.. of
// column g. The start is not a register per element that would have to be set before.
DEVICE void mma_s8_k32(int start, int c[4], const unsigned a[4], const unsigned b[2]) {
#if __CUDA_ARCH__ >= 800 || FAST_EMULATION
    mma_s8_m16n8k32_from(start, c, a, b);
#else
    mma_s8_m8n8k16_from(start, c, a[0], b[0]);
    mma_s8_m8n8k16_from(start, c + 2, a[1], b[0]);
    mma_s8_m8n8k16(c, a[2], b[1]);
    mma_s8_m8n8k16(c + 2, a[3], b[1]);
#endif
}
// c[16×8] = start + a[16×16] · b[16×8], 8-bit.
DEVICE void mma_s8_k16(int start, int c[4], const unsigned a[2], unsigned b) {
#if __CUDA_ARCH__ >= 800 || FAST_EMULATION
    mma_s8_m16n8k16_from(start, c, a, b);
#else
    mma_s8_m8n8k16_from(start, c, a[0], b);
    mma_s8_m8n8k16_from(start, c + 2, a[1], b);
#endif
}
// c[16×8] += a[16×16] · b[16×8], f16. a: rows g, g+8 for k = 2t.., then the same for k = 8+2t..; b: k = 2t.., 8+2t.. of column g.
DEVICE void mma_f16_k16(float c[4], const unsigned a[4], const unsigned b[2]) {
#if __CUDA_ARCH__ >= 800
    mma_f16_m16n8k16(c, a, b);
#elif FAST_EMULATION
    mma_f16_m16n8k8_twice(c, a, b);
#else
    mma_f16_m16n8k8(c, a[0], a[1], b[0]);
    mma_f16_m16n8k8(c, a[2], a[3], b[1]);
#endif
}
// Products of mma_f16_k16, one after the other.
struct F16Product {
    float* c;
    const unsigned *a, *b;
};
template <int N>
DEVICE void mma_f16_k16(const F16Product (&products)[N]) {
#ifdef __CUDACC__
#pragma unroll
    for (int i = 0; i < N; i++) mma_f16_k16(products[i].c, products[i].a, products[i].b);
#else
    mma_f16_m16n8k16_all(products);
#endif
}
// c[16×8] += a[16×8] · b[8×8], f16.
DEVICE void mma_f16_k8(float c[4], const unsigned a[2], unsigned b) { mma_f16_m16n8k8(c, a[0], a[1], b); }
#if __CUDA_ARCH__ >= 800
// As mma_f16_k16, in bf16.
DEVICE void mma_bf16_k16(float c[4], const unsigned a[4], const unsigned b[2]) { mma_bf16_m16n8k16(c, a, b); }
#endif

// 1 / x as the exact quotient is rounded (but for one in a million), x normal; 0 for huge x. Without the branches of that one.
DEVICE float inverse(float x) {
    const float y = fast_reciprocal(x);
    return y == 0.0f ? 0.0f : fmaf(y, fmaf(-x, y, 1.0f), y);
}
// 1 / √x as an exact root and an exact quotient are rounded (but for one in a million), x normal.
DEVICE float inverse_root(float x) {
    const float y = fast_rsqrt(x), near = product(x, y);
    return inverse(fmaf(fmaf(-near, near, x), product(0.5f, y), near));
}

// Four bytes at an address that is a multiple of two (weight blocks of 18, 22, 34 … bytes).
DEVICE unsigned read_u32_at_2(const void* p) {
    return load_weights2(p) | load_weights2(static_cast<const char*>(p) + 2) << 16;
}

// Four bytes at any address.
DEVICE unsigned read_u32_at_1(const void* p) {
    const char* bytes = static_cast<const char*>(p);
    return load_weights1(bytes) | load_weights1(bytes + 1) << 8 | load_weights1(bytes + 2) << 16 | load_weights1(bytes + 3) << 24;
}

// 2^(e - 128), half of an E8M0 scale; subnormal below e = 2.
DEVICE float half_e8m0_to_f32(unsigned e) { return __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23); }
DEVICE float bf16_to_f32(unsigned short h) { return __uint_as_float(static_cast<unsigned>(h) << 16); }
DEVICE unsigned short f32_to_bf16(float f) {
    const unsigned bits = __float_as_uint(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>(bits >> 16 | 0x40u); // NaN stays NaN
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
// Two halves in one word, `lo` in the low bits.
DEVICE unsigned pack_f16(float lo, float hi) { return f32_to_f16(lo) | static_cast<unsigned>(f32_to_f16(hi)) << 16; }
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
DEVICE unsigned pack_bf16(float lo, float hi) {
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
    return packed;
}
#else
DEVICE unsigned pack_bf16(float lo, float hi) { return f32_to_bf16(lo) | static_cast<unsigned>(f32_to_bf16(hi)) << 16; }
#endif

// 2 + |1.2x| ULP.
DEVICE float fast_exp(float x) { return fast_exp2(x * 1.44269504f); }
// Absolute error 3e-7.
DEVICE float fast_tanh(float x) { return 1.0f - 2.0f * fast_reciprocal(1.0f + fast_exp(2.0f * x)); }
