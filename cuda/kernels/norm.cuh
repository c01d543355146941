// Norm of a row and the sum with the residual stream before it, as the kernels of norm.cu make them and as a product does
// that makes its own column: the same bits in a block of any number of warps.
//
// Warps take chunks of 128 elements in turn, a lane four in a row of each. Squares (and what a mean is taken of) are added lane by
// lane, then over the warp, then the chunks' sums, 32 apart, and those over the warp.
#pragma once
#include "image.cuh"
#include "quads.cuh"

constexpr int NORM_CHUNK = 128;

// What is done to the stream: x / √(mean x² + eps), the same of x - mean, nothing; the first where there are weights, else nothing.
enum NormKind { NORM_RMS, NORM_LAYER, NORM_NONE, NORM_RMS_OR_NONE };

struct NormParams {
    const float* x;       // [rows][n] residual stream
    const float* add;     // [rows][n] what joins it, or null
    const float* post;    // [n] weights of an RMSNorm on `add`, or null: joins as it is
    const float* weight;  // [n]; of NORM_NONE null
    float* x_out;         // [rows][n] the stream with what has joined it, or null; x itself, or apart from it
    const int* seq;       // [rows]: rows with seq < 0 are skipped; null: none is
    const int* index;     // [rows] or null. Row r of y is then made from row index[r] of x and add (skipped where
                          // it is negative; seq is not asked); x_out is null
    float* y;             // [rows][n] the normed rows, or null; may be x
    QuantizedActivations image;  // the same for quantized matmuls (n a multiple of 32), or null
    int n;
    float eps;
    float post_eps;  // of the norm on `add`
    float scale;     // factor on what joins
    float x_scale;   // factor on what goes to x_out
    float share;  // 1 / n
    const float* bias;  // [n] of NORM_LAYER, joins at last; or null
};

DEVICE int norm_chunks(int n) { return (n + NORM_CHUNK - 1) / NORM_CHUNK; }

// Elements i to i + 3 of a row of n, i < n; zeros past its end. QUADS: n is a multiple of 4.
template <int QUADS>
DEVICE Quad quad_at(const float* row, int i, int n) {
    if constexpr (QUADS) {
        return load_quad(row + i);
    } else {
        Quad q = {{0.0f, 0.0f, 0.0f, 0.0f}};
        for (int j = 0; j < 4; j++) {
            if (i + j < n) q.v[j] = row[i + j];
        }
        return q;
    }
}

template <int QUADS>
DEVICE void store_quad(float* row, int i, int n, const Quad& q) {
    if constexpr (QUADS) {
        if (i < n) store_quad(row + i, q);
    } else {
        for (int j = 0; j < 4; j++) {
            if (i + j < n) row[i + j] = q.v[j];
        }
    }
}

// Σ of the elements of a warp, in every lane.
DEVICE float sum_of(const Quad& q) { return warp_sum(sum(sum(q.v[0], q.v[1]), sum(q.v[2], q.v[3]))); }

// Σ of their squares.
DEVICE float squares(const Quad& q) {
    float v = 0.0f;
    for (int j = 0; j < 4; j++) v = fmaf(q.v[j], q.v[j], v);
    return warp_sum(v);
}

// What a lane reads of a chunk.
struct Elements {
    Quad x, add, post, weight, bias;  // the last one of NORM_LAYER alone
};

// The part of it that no kernel of a step writes.
template <int QUADS, int KIND>
DEVICE void ask_weights(Elements& e, const NormParams& p, int chunk) {
    const int i = NORM_CHUNK * chunk + 4 * lane();
    e.post = e.weight = {{1.0f, 1.0f, 1.0f, 1.0f}};
    if (i >= p.n) return;
    if (p.post) e.post = quad_at<QUADS>(p.post, i, p.n);
    if constexpr (KIND == NORM_RMS_OR_NONE) {
        if (p.weight) e.weight = quad_at<QUADS>(p.weight, i, p.n);
    } else if constexpr (KIND != NORM_NONE) {
        e.weight = quad_at<QUADS>(p.weight, i, p.n);
    }
    if (KIND == NORM_LAYER && p.bias) e.bias = quad_at<QUADS>(p.bias, i, p.n);
}

// And the other one, of the row that begins with element `row`.
template <int QUADS>
DEVICE void ask_row(Elements& e, const NormParams& p, size_t row, int chunk) {
    const int i = NORM_CHUNK * chunk + 4 * lane();
    e.x = e.add = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (i >= p.n) return;
    e.x = quad_at<QUADS>(p.x + row, i, p.n);
    if (p.add) e.add = quad_at<QUADS>(p.add + row, i, p.n);
}

// The first chunks of a warp, which are asked for at once and kept; the next ones, if any, are found in the caches.
template <int KEPT>
struct First {
    int warp;
    Elements chunk[KEPT];
    // The chunk that element i is of.
    __device__ __forceinline__ int number(int i) const { return warp + i * (int)(blockDim.x / 32); }
};
template <int QUADS, int KIND, int KEPT>
DEVICE void ask_weights(First<KEPT>& first, const NormParams& p) {
#pragma unroll
    for (int i = 0; i < KEPT; i++) ask_weights<QUADS, KIND>(first.chunk[i], p, first.number(i));
}
template <int QUADS, int KEPT>
DEVICE void ask_row(First<KEPT>& first, const NormParams& p, size_t row) {
#pragma unroll
    for (int i = 0; i < KEPT; i++) ask_row<QUADS>(first.chunk[i], p, row, first.number(i));
}

// use(chunk, elements) for the chunks of a warp; also for one past the end, of zeros, where another warp has one.
template <int QUADS, int KIND, int KEPT, class Use>
DEVICE void each_chunk(const NormParams& p, size_t row, const First<KEPT>& first, const Use& use) {
    const int chunks = norm_chunks(p.n), warps = blockDim.x / 32;
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        if (i == 0 || i * warps < chunks) use(first.number(i), first.chunk[i]);
    }
#pragma unroll 1
    for (int chunk = first.number(KEPT); chunk < chunks; chunk += warps) {
        Elements e;
        ask_weights<QUADS, KIND>(e, p, chunk);
        ask_row<QUADS>(e, p, row, chunk);
        use(chunk, e);
    }
}

// Norms row `row` of x and add; whole warps call write(i, normed) with the elements i to i + 3 of each lane, also past the end of
// the row, where they are 0. `part`: NORM_SUMS<KIND> · norm_chunks(n) floats in shared memory; x_out: see the parameters.
template <int KIND>
constexpr int NORM_SUMS = KIND == NORM_LAYER ? 3 : 2;

template <int QUADS, int KIND, int KEPT, class Write>
DEVICE void norm_row(const NormParams& p, int row, const First<KEPT>& first, float* x_out, float* part, const Write& write) {
    const int chunks = norm_chunks(p.n);
    const size_t at = (size_t)row * p.n;
    auto over_row = [&](const float* part) {
        block_sync();
        float total = lane() < chunks ? part[lane()] : 0.0f;
#pragma unroll 1
        for (int chunk = 32 + lane(); chunk < chunks; chunk += 32) total = sum(total, part[chunk]);
        return warp_sum(total);
    };
    auto factor = [&](const float* part, float eps) { return inverse_root(fmaf(over_row(part), p.share, eps)); };
    float add_factor = p.scale;
    if (p.add && p.post) {
        each_chunk<QUADS, KIND>(p, at, first, [&](int chunk, const Elements& e) {
            const float v = squares(e.add);
            if (lane() == 0 && chunk < chunks) part[chunk] = v;
        });
        add_factor = product(factor(part, p.post_eps), p.scale);
    }
    auto joined = [&](const Elements& e) {
        Quad v;
        for (int j = 0; j < 4; j++) v.v[j] = fmaf(product(e.add.v[j], add_factor), e.post.v[j], e.x.v[j]);
        return v;
    };
    // Each sum has memory of its own: some warps still read the last one.
    part += chunks;
    float mean = 0.0f;
    if constexpr (KIND == NORM_LAYER) {
        each_chunk<QUADS, KIND>(p, at, first, [&](int chunk, const Elements& e) {
            const float v = sum_of(joined(e));
            if (lane() == 0 && chunk < chunks) part[chunk] = v;
        });
        mean = product(over_row(part), p.share);
        part += chunks;
    }
    auto centred = [&](int chunk, const Elements& e) {
        Quad v = joined(e);
        if constexpr (KIND == NORM_LAYER) {
            const int i = NORM_CHUNK * chunk + 4 * lane();
            for (int j = 0; j < 4; j++) v.v[j] = i + j < p.n ? v.v[j] - mean : 0.0f;
        }
        return v;
    };
    float norm_factor = 1.0f;
    if (KIND != NORM_NONE && (KIND != NORM_RMS_OR_NONE || p.weight)) {
        each_chunk<QUADS, KIND>(p, at, first, [&](int chunk, const Elements& e) {
            const float v = squares(centred(chunk, e));
            if (lane() == 0 && chunk < chunks) part[chunk] = v;
        });
        norm_factor = factor(part, p.eps);
    }
    // A lane reads only what it alone writes: x_out and y may be x.
    each_chunk<QUADS, KIND>(p, at, first, [&](int chunk, const Elements& e) {
        const int i = NORM_CHUNK * chunk + 4 * lane();
        const Quad v = centred(chunk, e);
        if (x_out) {
            Quad stream = KIND == NORM_LAYER ? joined(e) : v;
            for (int j = 0; j < 4; j++) stream.v[j] = product(stream.v[j], p.x_scale);
            store_quad<QUADS>(x_out + at, i, p.n, stream);
        }
        Quad normed;
        for (int j = 0; j < 4; j++) normed.v[j] = product(product(v.v[j], norm_factor), e.weight.v[j]);
        if (KIND == NORM_LAYER && p.bias) {
            for (int j = 0; j < 4; j++) normed.v[j] = i < p.n ? sum(normed.v[j], e.bias.v[j]) : 0.0f;
        }
        write(i, normed);
    });
}
