// Warp operations, computed for all lanes at once: exchanges, reductions, tensor cores, ldmatrix.
#include <string.h>

#include <algorithm>
#include <cmath>

#include "block.h"
#include "checker.h"

namespace emu {

template <class T> static T take(uint64_t v) {
    T t;
    memcpy(&t, &v, sizeof t);
    return t;
}

static const Fragments& fragments(const Warp& w, int lane, int i = 0) {
    return reinterpret_cast<const Fragments*>(w.values[lane])[i];
}

// The butterfly of kernels/ptx.cuh: the pairs at distance 16 first, then 8, 4, 2, 1. Its sums commute, so all lanes agree.
template <class T, class F> static void reduce(Warp& w, F join) {
    T v[32];
    for (int i = 0; i < 32; i++) v[i] = take<T>(w.values[i]);
    for (int half = 16; half; half /= 2)
        for (int i = 0; i < half; i++) v[i] = join(v[i], v[i + half]);
    uint64_t all = 0;
    memcpy(&all, v, sizeof(T));
    std::fill_n(w.values, 32, all);
}
template <class T> static void sum(Warp& w) { reduce<T>(w, [](T a, T b) { return a + b; }); }
template <class T> static void max(Warp& w) { reduce<T>(w, [](T a, T b) { return std::max(a, b); }); }

// Over each n neighbouring lanes: the pairs at distance 1 first, then 2, 4 …
template <class T, class F> static void reduce_groups(Warp& w, F join) {
    const int n = w.arguments[0];
    for (int mask = 1; mask < n; mask *= 2) {
        T v[32];
        for (int i = 0; i < 32; i++) v[i] = take<T>(w.values[i]);
        for (int i = 0; i < 32; i++) {
            const T joined = join(v[i], v[i ^ mask]);
            memcpy(&w.values[i], &joined, sizeof joined);
        }
    }
}

static void shuffle(Warp& w) {
    uint64_t v[32];
    memcpy(v, w.values, sizeof v);
    for (int i = 0; i < 32; i++)
        if (w.exists >> i & 1) w.values[i] = v[w.arguments[i]];
}

static void shuffle_words(Warp& w) {
    const int count = fragments(w, 0).count;
    for (int i = 0; i < count; i++) {
        uint32_t v[32];
        for (int l = 0; l < 32; l++) v[l] = static_cast<const uint32_t*>(fragments(w, l).a)[i];
        for (int l = 0; l < 32; l++) static_cast<uint32_t*>(fragments(w, l).c)[i] = v[w.arguments[l]];
    }
}

// Eight columns of a row of `c`, or of `b` at one k (for registers: at those k that one of them holds).
template <class A> struct Columns {
    typedef A Type __attribute__((vector_size(8 * sizeof(A))));
};
using Ints = Columns<int>::Type;
using Floats = Columns<float>::Type;
using Words = Columns<unsigned>::Type;
using Shorts = short __attribute__((vector_size(32)));

// c + Σ x·y of eight columns, over the four bytes of each of n registers.
static Ints multiply(Ints c, const unsigned* x, const Words* y, int n) {
    for (int k = 0; k < n; k++) {
        const auto even = [](Words v) { return (Shorts)v << 8 >> 8; }; // bytes 0 and 2, the others are 1 and 3
        const auto odd = [](Words v) { return (Shorts)v >> 8; };
        const auto add = [&](Shorts a, Shorts b) {
#ifdef __AVX2__
            c += (Ints)__builtin_ia32_pmaddwd256(a, b);
#else
            for (int i = 0; i < 8; i++) c[i] += a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
#endif
        };
        const Words all = Words{} + x[k];
        add(even(all), even(y[k]));
        add(odd(all), odd(y[k]));
    }
    return c;
}
#ifdef SILICON
static double power_of_two(int n) {
    const uint64_t bits = static_cast<uint64_t>(n + 1023) << 52;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}
// Four products at a time and the sum so far are aligned to the largest of them, cut to 24 bits and added; the result is cut to
// f32. So do the tensor cores of SM 7.x; later ones take more products and keep a bit more (Fasi, Higham, Mikaitis, Pranesh,
// "Numerical behavior of NVIDIA tensor cores", 2021).
static float multiply(float c, const float* x, const Floats* y, int column, int n) {
    for (int first = 0; first < n; first += 4) {
        double terms[5] = {c}; // f32 in a double: no exponent is too small
        int largest = -1000;
        for (int k = 0; k < 4; k++) terms[1 + k] = x[first + k] * y[first + k][column];
        for (const double t : terms) {
            if (!std::isfinite(t)) return static_cast<float>(terms[0] + terms[1] + terms[2] + terms[3] + terms[4]);
            uint64_t bits;
            memcpy(&bits, &t, sizeof bits);
            if (t != 0) largest = std::max(largest, static_cast<int>(bits >> 52 & 0x7ff) - 1023);
        }
        if (largest == -1000) {
            c = 0;
            continue;
        }
        const double scale = power_of_two(23 - largest);
        int64_t sum = 0;
        for (const double t : terms) sum += static_cast<int64_t>(t * scale);
        while (sum >= 1 << 24 || sum <= -(1 << 24)) sum /= 2, largest++;
        c = static_cast<float>(static_cast<double>(sum) * power_of_two(largest - 23));
    }
    return c;
}
static Floats multiply(Floats c, const float* x, const Floats* y, int n) {
    for (int column = 0; column < 8; column++) c[column] = multiply(c[column], x, y, column, n);
    return c;
}
#else
static Floats multiply(Floats c, const float* x, const Floats* y, int n) {
    Floats sum = {};
    for (int k = 0; k < n; k++) sum += x[k] * y[k];
    return c + sum;
}
#endif

// The 16-bit floats in the low halves of words, as f32. Products of them are exact there, and summed in the order of k.
struct Bf16 {
    static Floats of(Words v) { return (Floats)(v << 16); }
};
struct F16 {
    static Floats of(Words v) {
        // The exponent's bias differs by 112; the largest exponent stands for what is not finite.
        const Words magnitude = (Words)((Floats)((v & 0x7fff) << 13) * 0x1p112f);
        const Words infinite = -(((v & 0x7c00) + 0x400) >> 15 & 1) & 0x7f800000;
        return (Floats)((v & 0x8000) << 16 | magnitude | infinite);
    }
};

// n words of two floats each, in their order.
template <class E> static void decode(const unsigned* words, float* out, int n) {
    for (int i = 0; i < n; i += 8) {
        Words v;
        memcpy(&v, words + i, sizeof v);
        const Floats low = E::of(v), high = E::of(v >> 16);
        for (int j = 0; j < 8; j++) out[2 * (i + j)] = low[j], out[2 * (i + j) + 1] = high[j];
    }
}

// Tensor cores: gather the fragments into rows, multiply, scatter. Lane 4g+t holds rows g and g+8 of `a` and `c`, column g of
// `b` (PTX manual, "Matrix Fragments for mma"). PER: elements per register.
template <int M, int K, int PER, class A, class F> static void mma(Warp& w, int i, F multiply_rows) {
    constexpr int ROWS = M / 8, REGISTERS = K / PER, STEPS = REGISTERS / 4;
    using Row = typename Columns<A>::Type;
    unsigned a[M][REGISTERS];
    Words b[REGISTERS];
    Row c[M];
    for (int l = 0; l < 32; l++) {
        const int g = l / 4, t = l % 4;
        const Fragments& f = fragments(w, l, i);
        unsigned of_a[ROWS * STEPS], of_b[STEPS];
        memcpy(of_a, f.a, sizeof of_a);
        memcpy(of_b, f.b, sizeof of_b);
        for (int s = 0; s < STEPS; s++) {
            for (int r = 0; r < ROWS; r++) a[g + 8 * r][s * 4 + t] = of_a[s * ROWS + r];
            b[s * 4 + t][g] = of_b[s];
        }
        for (int r = 0; r < ROWS; r++)
            memcpy(reinterpret_cast<A*>(&c[g + 8 * r]) + 2 * t, static_cast<const A*>(f.c) + 2 * r, 2 * sizeof(A));
    }
    multiply_rows(a, b, c);
    for (int l = 0; l < 32; l++) {
        A* const out = static_cast<A*>(fragments(w, l, i).c);
        for (int r = 0; r < ROWS; r++) memcpy(out + 2 * r, reinterpret_cast<A*>(&c[l / 4 + 8 * r]) + l % 4 * 2, 2 * sizeof(A));
    }
}

// All instructions of a collective, in their order.
template <int M, int K, int PER, class A, class F> static void mma_all(Warp& w, F multiply_rows) {
    const int count = fragments(w, 0).count;
    for (int i = 0; i < count; i++) mma<M, K, PER, A>(w, i, multiply_rows);
}

template <int M, int K> static void mma_int8(Warp& w) {
    mma_all<M, K, 4, int>(w, [](const auto& a, const Words* b, Ints* c) {
        for (int row = 0; row < M; row++) c[row] = multiply(c[row], a[row], b, K / 4);
    });
}

// AT_ONCE: how many of the K products of an element join it together.
template <int M, int K, class E, int AT_ONCE = K> static void mma_float(Warp& w) {
    mma_all<M, K, 2, float>(w, [](const auto& a, const Words* b, Floats* c) {
        float x[M][K];
        Floats y[K];
        decode<E>(a[0], x[0], M * K / 2);
        for (int k = 0; k < K / 2; k++) y[2 * k] = E::of(b[k]), y[2 * k + 1] = E::of(b[k] >> 16);
        for (int row = 0; row < M; row++) {
            for (int k = 0; k < K; k += AT_ONCE) c[row] = multiply(c[row], x[row] + k, y + k, AT_ONCE);
        }
    });
}

// Lane i holds elements 2(i%4), 2(i%4)+1 of row i/4 of each matrix; transposed, of its column.
static void ldmatrix(Warp& w, bool transposed) {
    const int count = fragments(w, 0).count;
    unsigned char rows[32][16];
    for (int i = 0; i < 8 * count; i++) {
        const void* row = fragments(w, i).a;
        Block& b = *w.of;
        if (reinterpret_cast<uintptr_t>(row) % 16)
            b.fail(MISALIGNED, who(w.lanes[i]) + " gives ldmatrix a row that is not aligned to 16 bytes in " + where(w.site));
        if (Checker* c = b.launch->checker) c->access(w.lanes[i], reinterpret_cast<uintptr_t>(row), 16, Access::Matrix, w.pcs[i]);
        memcpy(rows[i], row, 16);
    }
    for (int l = 0; l < 32; l++)
        for (int m = 0; m < count; m++) {
            const int g = l / 4, t = l % 4;
            unsigned char* r = static_cast<unsigned char*>(fragments(w, l).c) + 4 * m;
            if (!transposed) {
                memcpy(r, rows[8 * m + g] + 4 * t, 4);
            } else {
                memcpy(r, rows[8 * m + 2 * t] + 2 * g, 2);
                memcpy(r + 2, rows[8 * m + 2 * t + 1] + 2 * g, 2);
            }
        }
}

void collective(Op op, Warp& w) {
    if (w.exists != ~0u && op != Op::Shuffle && op != Op::Ballot) {
        w.of->fail(LAUNCH_FAILED, "a warp of less than 32 threads calls " + where(w.site));
    }
    switch (op) {
    case Op::Sync: break;
    case Op::Shuffle: shuffle(w); break;
    case Op::ShuffleWords: shuffle_words(w); break;
    case Op::Ballot: {
        uint64_t mask = 0;
        for (int i = 0; i < 32; i++)
            if (w.exists >> i & 1) mask |= w.values[i] << i;
        std::fill_n(w.values, 32, mask);
        break;
    }
    case Op::SumF32: sum<float>(w); break;
    case Op::SumI32: case Op::SumU32: sum<unsigned>(w); break;
    case Op::SumU64: sum<uint64_t>(w); break;
    case Op::MaxF32: reduce<float>(w, [](float a, float b) { return __builtin_fmaxf(a, b); }); break;
    case Op::MaxI32: max<int>(w); break;
    case Op::MaxU32: max<unsigned>(w); break;
    case Op::MaxU64: max<uint64_t>(w); break;
    case Op::GroupSumF32: reduce_groups<float>(w, [](float a, float b) { return a + b; }); break;
    case Op::GroupSumI32: reduce_groups<unsigned>(w, [](unsigned a, unsigned b) { return a + b; }); break;
    case Op::GroupMaxF32: reduce_groups<float>(w, [](float a, float b) { return __builtin_fmaxf(a, b); }); break;
    case Op::GroupMaxU32: reduce_groups<unsigned>(w, [](unsigned a, unsigned b) { return std::max(a, b); }); break;
    case Op::MmaS8M8N8K16: mma_int8<8, 16>(w); break;
    case Op::MmaS8M16N8K16: mma_int8<16, 16>(w); break;
    case Op::MmaS8M16N8K32: mma_int8<16, 32>(w); break;
    case Op::MmaF16M16N8K8: mma_float<16, 8, F16>(w); break;
    case Op::MmaF16M16N8K8Twice: mma_float<16, 16, F16, 8>(w); break;
    case Op::MmaF16M16N8K16: mma_float<16, 16, F16>(w); break;
    case Op::MmaBf16M16N8K16: mma_float<16, 16, Bf16>(w); break;
    case Op::Ldmatrix: ldmatrix(w, false); break;
    case Op::LdmatrixTransposed: ldmatrix(w, true); break;
    }
}

} // namespace emu
