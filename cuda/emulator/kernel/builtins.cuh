// CUDA's own words: qualifiers, vector types, special registers and the intrinsics that kernels may use.
#pragma once
#include "abi.h"
#include "half.h"

// Kernels are plain functions; the build script finds them in the preprocessed text, where these two words stay.
#ifndef LIST_KERNELS
#ifndef __global__
#define __global__
#endif
#define __launch_bounds__(...)
#endif
#define __device__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) alignas(n)
#define DEVICE static __forceinline__ __attribute__((unused))
// A function of the emulator inside a kernel's translation unit, whose own accesses are none of the kernel's.
#define UNCHECKED static inline __attribute__((unused, no_sanitize("thread", "undefined")))

#define VECTORS(name, T)                                                                                   \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                                     \
    struct name##3 { T x, y, z; };                                                                         \
    struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };                     \
    DEVICE name##2 make_##name##2(T x, T y) { return {x, y}; }                                             \
    DEVICE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                     \
    DEVICE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTORS(char, signed char)
VECTORS(uchar, unsigned char)
VECTORS(short, short)
VECTORS(ushort, unsigned short)
VECTORS(int, int)
VECTORS(uint, unsigned)
VECTORS(float, float)
VECTORS(longlong, long long)
VECTORS(ulonglong, unsigned long long)
VECTORS(double, double)
#undef VECTORS

namespace emu {
// A special register. It never changes for a thread, and the load is none of the kernel's: hence assembly, not a load.
template <int OFFSET> struct Register {
    __attribute__((always_inline)) operator unsigned() const {
        const Lane* self;
        asm("movq emu_self@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(self));
        unsigned v;
        asm("movl %c2(%1), %0" : "=r"(v) : "r"(self), "i"(OFFSET));
        return v;
    }
};
template <int OFFSET> struct Registers {
    [[no_unique_address]] Register<OFFSET> x;
    [[no_unique_address]] Register<OFFSET + 4> y;
    [[no_unique_address]] Register<OFFSET + 8> z;
};
} // namespace emu
static constexpr emu::Registers<offsetof(emu::Lane, thread)> threadIdx{};
static constexpr emu::Registers<offsetof(emu::Lane, block)> blockIdx{};
static constexpr emu::Registers<offsetof(emu::Lane, threads)> blockDim{};
static constexpr emu::Registers<offsetof(emu::Lane, blocks)> gridDim{};
static constexpr int warpSize = 32;

namespace emu {
template <class To, class From> __attribute__((always_inline)) inline To cast(From v) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To r;
    memcpy(&r, &v, sizeof r);
    return r;
}
} // namespace emu
DEVICE int __float_as_int(float f) { return emu::cast<int>(f); }
DEVICE unsigned __float_as_uint(float f) { return emu::cast<unsigned>(f); }
DEVICE float __int_as_float(int i) { return emu::cast<float>(i); }
DEVICE float __uint_as_float(unsigned i) { return emu::cast<float>(i); }
DEVICE long long __double_as_longlong(double d) { return emu::cast<long long>(d); }
DEVICE double __longlong_as_double(long long i) { return emu::cast<double>(i); }
DEVICE int __float2int_rn(float f) { return static_cast<int>(rintf(f)); }
DEVICE int __popc(unsigned v) { return __builtin_popcount(v); }
DEVICE int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
DEVICE int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
DEVICE int __ffs(int v) { return __builtin_ffs(v); }
DEVICE unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
DEVICE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(hi) << 32 | lo) >> (shift & 31));
}
DEVICE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(hi) << 32 | lo) << (shift & 31) >> 32);
}
DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned s = selector >> 4 * i & 15, byte = static_cast<unsigned>(bytes >> 8 * (s & 7)) & 255;
        r |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return r;
}
DEVICE unsigned __vadd4(unsigned a, unsigned b) { return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u); }
DEVICE unsigned __vsub4(unsigned a, unsigned b) { return ((a | 0x80808080u) - (b & 0x7f7f7f7fu)) ^ ((a ^ ~b) & 0x80808080u); }
DEVICE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
DEVICE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
DEVICE int min(int a, int b) { return b < a ? b : a; }
DEVICE int max(int a, int b) { return a < b ? b : a; }
DEVICE unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
DEVICE unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
DEVICE long long min(long long a, long long b) { return b < a ? b : a; }
DEVICE long long max(long long a, long long b) { return a < b ? b : a; }
DEVICE unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
DEVICE unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
DEVICE float min(float a, float b) { return fminf(a, b); }
DEVICE float max(float a, float b) { return fmaxf(a, b); }
