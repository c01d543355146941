// Embedding rows as f32, chosen by token ids in device memory.
//
// Grid: rows × ceil(k / 1024) blocks of 128 threads, no shared memory. Moves each chosen row once, and 4 bytes per element.
#include "ptx.cuh"
#include "formats.cuh"

struct EmbedParams {
    const unsigned char* w;  // [vocabulary] rows of k weights
    const int* token;        // [rows]
    const int* seq;          // [rows]: rows with seq < 0 are idle; null: none is
    float* y;                // [rows][k]
    int rows;
    int k;
    int format;   // ggml type number
    float scale;  // y = scale·weight
};

// Eight elements per thread: an octet. d·q is exact in f32, so this is the dequantized weight to the last bit.
template <class F>
DEVICE void eight(const EmbedParams& p, const unsigned char* w, float* y, int octet) {
    const unsigned char* row = w + (size_t)(p.k / F::BLOCK) * F::BYTES * p.token[blockIdx.x];
    if constexpr (F::DENSE) {
        for (int i = 8 * octet; i < min(8 * octet + 8, p.k); i++) y[i] = F::one(row, i) * p.scale;
    } else {
        int t = octet & 3;
        if (8 * octet >= p.k) return;
        typename F::Octet w8 = F::octet(row, octet >> 2, t);
        float* out = y + 8 * (octet - t) + 4 * t;
        for (int i = 0; i < 4; i++) {
            float q0 = (float)(signed char)(w8.q0 >> 8 * i), q1 = (float)(signed char)(w8.q1 >> 8 * i);
            out[i] = (w8.d0 * q0 - w8.m0) * p.scale;
            out[16 + i] = (w8.d1 * q1 - w8.m1) * p.scale;
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
