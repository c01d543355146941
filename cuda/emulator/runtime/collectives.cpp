// Warp operations, computed for all lanes at once: exchanges, reductions, tensor cores, ldmatrix.
#include <string.h>

#include <algorithm>
#include <cmath>

#include "block.h"
#include "checker.h"
#include "half.h"

namespace emu {

template <class T> static T take(uint64_t v) {
    T t;
    memcpy(&t, &v, sizeof t);
    return t;
}

static const Fragments& fragments(const Warp& w, int lane) { return *reinterpret_cast<const Fragments*>(w.lanes[lane]->value); }

// The butterfly of kernels/ptx.cuh: the pairs at distance 16 first, then 8, 4, 2, 1. Its sums commute, so all lanes agree.
template <class T, class F> static void reduce(Warp& w, F join) {
    T v[32];
    for (int i = 0; i < 32; i++) v[i] = take<T>(w.lanes[i]->value);
    for (int half = 16; half; half /= 2)
        for (int i = 0; i < half; i++) v[i] = join(v[i], v[i + half]);
    uint64_t all = 0;
    memcpy(&all, v, sizeof(T));
    for (int i = 0; i < 32; i++) w.lanes[i]->value = all;
}
template <class T> static void sum(Warp& w) { reduce<T>(w, [](T a, T b) { return a + b; }); }
template <class T> static void max(Warp& w) { reduce<T>(w, [](T a, T b) { return std::max(a, b); }); }

static void shuffle(Warp& w) {
    uint64_t v[32];
    for (int i = 0; i < 32; i++)
        if (w.exists >> i & 1) v[i] = w.lanes[i]->value;
    for (int i = 0; i < 32; i++)
        if (w.exists >> i & 1) w.lanes[i]->value = v[w.lanes[i]->argument];
}

// Eight columns of a row of `c`, or of `b` at one k.
template <class A> struct Columns {
    typedef A Type __attribute__((vector_size(8 * sizeof(A))));
};
using Ints = Columns<int>::Type;
using Floats = Columns<float>::Type;

// c + Σ x·y of eight columns as a tensor core has them.
[[maybe_unused]] static Ints multiply(Ints c, const int* x, const Ints* y, int n) {
    for (int k = 0; k < n; k++) c += x[k] * y[k];
    return c;
}
#ifdef SILICON
// Four products at a time and the sum so far are aligned to the largest of them, cut to 24 bits and added; the result is cut to
// f32. So do the tensor cores of SM 7.x; later ones take more products and keep a bit more (Fasi, Higham, Mikaitis, Pranesh,
// "Numerical behavior of NVIDIA tensor cores", 2021).
static float multiply(float c, const float* x, const Floats* y, int column, int n) {
    for (int first = 0; first < n; first += 4) {
        float terms[5] = {c};
        int largest = -1000;
        for (int k = 0; k < 4; k++) terms[1 + k] = x[first + k] * y[first + k][column];
        for (const float t : terms) {
            if (!std::isfinite(t)) return terms[0] + terms[1] + terms[2] + terms[3] + terms[4];
            if (t != 0) largest = std::max(largest, std::ilogb(t));
        }
        int64_t sum = 0;
        for (const float t : terms) sum += static_cast<int64_t>(std::ldexp(static_cast<double>(t), 23 - largest));
        while (sum >= 1 << 24 || sum <= -(1 << 24)) sum /= 2, largest++;
        c = static_cast<float>(std::ldexp(static_cast<double>(sum), largest - 23));
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

// Tensor cores: unpack the fragments into rows, multiply, pack. Lane 4g+t holds rows g and g+8 of `a` and `c`, column g of
// `b` (PTX manual, "Matrix Fragments for mma"). Products of 16-bit floats are exact in f32 and summed there in the order of k.
template <int M, int K, class E, class A, class F> static void mma(Warp& w, F decode) {
    constexpr int PER = 4 / sizeof(E); // elements per register
    constexpr int ROWS = M / 8, STEPS = K / (4 * PER); // registers of `a`: ROWS × STEPS
    A a[M][K];
    typename Columns<A>::Type b[K], c[M];
    for (int l = 0; l < 32; l++) {
        const int g = l / 4, t = l % 4;
        E ea[ROWS * STEPS * PER], eb[STEPS * PER];
        A ec[2 * ROWS];
        memcpy(ea, fragments(w, l).a, sizeof ea);
        memcpy(eb, fragments(w, l).b, sizeof eb);
        memcpy(ec, fragments(w, l).c, sizeof ec);
        for (int s = 0; s < STEPS; s++)
            for (int i = 0; i < PER; i++) {
                const int k = s * 4 * PER + t * PER + i;
                for (int r = 0; r < ROWS; r++) a[g + 8 * r][k] = decode(ea[(s * ROWS + r) * PER + i]);
                b[k][g] = decode(eb[s * PER + i]);
            }
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < 2; i++) c[g + 8 * r][2 * t + i] = ec[2 * r + i];
    }
    for (int row = 0; row < M; row++) c[row] = multiply(c[row], a[row], b, K);
    for (int l = 0; l < 32; l++) {
        A* out = static_cast<A*>(fragments(w, l).c);
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < 2; i++) out[2 * r + i] = c[l / 4 + 8 * r][l % 4 * 2 + i];
    }
}

// Lane i holds elements 2(i%4), 2(i%4)+1 of row i/4 of each matrix; transposed, of its column.
static void ldmatrix(Warp& w, bool transposed) {
    const int count = fragments(w, 0).count;
    unsigned char rows[32][16];
    for (int i = 0; i < 8 * count; i++) {
        const void* row = fragments(w, i).a;
        Block& b = *w.lanes[i]->of;
        if (reinterpret_cast<uintptr_t>(row) % 16)
            b.fail(MISALIGNED, who(*w.lanes[i]) + " gives ldmatrix a row that is not aligned to 16 bytes in " + where(w.site));
        if (Checker* c = b.launch->checker) c->access(*w.lanes[i], reinterpret_cast<uintptr_t>(row), 16, Access::Matrix, w.lanes[i]->pc);
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

static const float* half_table() {
    static float* table = [] {
        float* t = new float[65536];
        for (int i = 0; i < 65536; i++) t[i] = half_to_float(static_cast<uint16_t>(i));
        return t;
    }();
    return table;
}

void collective(Op op, Warp& w) {
    const auto byte = [](signed char v) { return static_cast<int>(v); };
    const auto half = [t = half_table()](uint16_t v) { return t[v]; };
    if (w.exists != ~0u && op != Op::Shuffle && op != Op::Ballot) {
        w.lanes[0]->of->fail(LAUNCH_FAILED, "a warp of less than 32 threads calls " + where(w.site));
    }
    switch (op) {
    case Op::Sync: break;
    case Op::Shuffle: shuffle(w); break;
    case Op::Ballot: {
        uint64_t mask = 0;
        for (int i = 0; i < 32; i++)
            if (w.exists >> i & 1) mask |= w.lanes[i]->value << i;
        for (int i = 0; i < 32; i++)
            if (w.exists >> i & 1) w.lanes[i]->value = mask;
        break;
    }
    case Op::SumF32: sum<float>(w); break;
    case Op::SumI32: case Op::SumU32: sum<unsigned>(w); break;
    case Op::SumU64: sum<uint64_t>(w); break;
    case Op::MaxF32: reduce<float>(w, [](float a, float b) { return __builtin_fmaxf(a, b); }); break;
    case Op::MaxI32: max<int>(w); break;
    case Op::MaxU32: max<unsigned>(w); break;
    case Op::MaxU64: max<uint64_t>(w); break;
    case Op::MmaS8M8N8K16: mma<8, 16, signed char, int>(w, byte); break;
    case Op::MmaS8M16N8K16: mma<16, 16, signed char, int>(w, byte); break;
    case Op::MmaS8M16N8K32: mma<16, 32, signed char, int>(w, byte); break;
    case Op::MmaF16M16N8K8: mma<16, 8, uint16_t, float>(w, half); break;
    case Op::MmaF16M16N8K16: mma<16, 16, uint16_t, float>(w, half); break;
    case Op::MmaBf16M16N8K16: mma<16, 16, uint16_t, float>(w, bf16_to_float); break;
    case Op::Ldmatrix: ldmatrix(w, false); break;
    case Op::LdmatrixTransposed: ldmatrix(w, true); break;
    }
}

} // namespace emu
