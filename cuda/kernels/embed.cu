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
    float scale;  // y = scale·weight
};

// Eight elements per thread: an octet. scale·q is exact in f32, so this is the dequantized weight to the last bit.
template <class F>
DEVICE void eight(const EmbedParams& p, const unsigned char* w, float* y, int octet) {
    if (8 * octet >= p.k) return;
    const int token = p.token[blockIdx.x];
    if constexpr (F::DENSE) {
        const unsigned char* row = w + (size_t)p.k * F::BYTES * token;
        for (int i = 8 * octet; i < min(8 * octet + 8, p.k); i++) y[i] = F::one(row, i) * p.scale;
    } else {
        const int t = octet % 4, block = octet / 4 % (F::COLUMNS / 32), c = block / 4, j = block % 4, i = token % 16 / 8;
        const unsigned char* at = record<F>(w, records<F>(p.k), token / 16, octet / 4 / (F::COLUMNS / 32));
        const int l = 4 * (token % 8) + t;
        const typename F::Held held = F::load(at + 16 * l, l);
        float* out = y + 8 * (octet - t) + 4 * t;
        for (int half = 0; half < 2; half++) {
            const unsigned q = F::quad(held, c, i, j, half);
            float scale, minimum = 0;
            if constexpr (F::INTEGER) {
                scale = F::d(held, i) * (float)F::scale(held, c, i, j, half);
                if constexpr (F::MIN) minimum = -(F::dmin(held, i) * F::minimum(held, c, i, j, half));
            } else {
                scale = F::scale(held, i, j);
                if constexpr (F::MIN) minimum = F::minimum(held, i, j);
            }
            for (int e = 0; e < 4; e++) {
                out[16 * half + e] = (scale * scaled<F>((float)signed_byte(q, e)) + minimum) * p.scale;
            }
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
