// Embedding rows as f32, chosen by token ids in device memory.
//
// Grid: rows × ceil(k / 1024) blocks of 128 threads, no shared memory. Moves each chosen row once, and 4 bytes per element.
#include "ptx.cuh"
#include "chunk.cuh"

struct EmbedParams {
    const unsigned char* w;  // [vocabulary] rows of k weights, or their tile records
    const int* token;        // [rows]
    const int* seq;          // [rows]: rows with seq < 0 are idle; null: none is
    float* y;                // [rows][k]
    int rows;
    int k;
    int format;   // ggml type number
    float scale;  // y = scale·weight + add
    const unsigned short* weight_grid;  // as in MatmulParams
    const float* add;  // [k] joins each row, or null
};

// An octet of a record: row g + 8i, chunk c, block j of it. scale·q is exact in f32, so this is the dequantized weight to the last
// bit. What is held lies in registers, which have no index: c and i are constants.
template <class F, int c, int i>
DEVICE void octet(float* out, const typename F::Held& w, int j, float factor) {
    for (int half = 0; half < 2; half++) {
        const unsigned q = F::quad(w, c, i, j, half);
        float scale, minimum = 0;
        if constexpr (F::INTEGER) {
            scale = F::d(w, i) * (float)F::scale(w, c, i, j, half);
            if constexpr (F::MIN) minimum = -(F::dmin(w, i) * F::minimum(w, c, i, j, half));
        } else if constexpr (F::SCALES == 2) {
            scale = F::scale(w, i, j, half);
        } else {
            scale = F::scale(w, i, j);
            if constexpr (F::MIN) minimum = F::minimum(w, i, j);
        }
        for (int e = 0; e < 4; e++) out[16 * half + e] = (scale * scaled<F>((float)signed_byte(q, e)) + minimum) * factor;
    }
}

// Eight elements per thread.
template <class F>
DEVICE void eight(const EmbedParams& p, const unsigned char* w, float* y, int at) {
    if (8 * at >= p.k) return;
    const int token = p.token[blockIdx.x];
    if constexpr (F::DENSE) {
        const unsigned char* row = w + (size_t)p.k * F::BYTES * token;
        for (int i = 8 * at; i < min(8 * at + 8, p.k); i++) {
            const float x = product(F::one(row, i), p.scale);
            y[i] = p.add ? sum(x, p.add[i]) : x;
        }
    } else {
        const int t = at % 4, block = at / 4 % (F::COLUMNS / 32), l = 4 * (token % 8) + t;
        const unsigned char* from = record<F>(w, records<F>(p.k), token / 16, at / 4 / (F::COLUMNS / 32));
        typename F::Held held = F::load(from + 16 * l, l);
        lend_grid<F>(held, l, p.weight_grid);
        const int first = 8 * (at - t) + 4 * t;
        float* out = y + first;
        switch (block / 4 * 2 + token % 16 / 8) {
            case 0: octet<F, 0, 0>(out, held, block % 4, p.scale); break;
            case 1: octet<F, 0, 1>(out, held, block % 4, p.scale); break;
            case 2: octet<F, F::COLUMNS / CHUNK - 1, 0>(out, held, block % 4, p.scale); break;
            case 3: octet<F, F::COLUMNS / CHUNK - 1, 1>(out, held, block % 4, p.scale); break;
        }
        if (!p.add) return;
        for (int i = 0; i < 8; i++) {
            const int e = i / 4 * 16 + i % 4;
            out[e] = sum(out[e], p.add[first + e]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) embed(const EmbedParams p) {
    int row = blockIdx.x, octet = blockIdx.y * 128 + threadIdx.x;
    if (p.seq && p.seq[row] < 0) return;
    float* y = p.y + (size_t)row * p.k;
    switch (p.format) {
#define CASE(number, name, F) \
    case number: eight<F>(p, p.w, y, octet); break;
        FORMATS(CASE)
#undef CASE
    }
}
