// Mamba-2, for decode and prefill, and the norm of what its heads give. Of each head with matrix S, for B, C and x of a token:
// S *= exp(dt·A); S += B·(dt·x)ᵀ; y = (SᵀC + D·x)·silu(z).
#include "recurrent.cuh"

enum { NORM_THREADS = 512 };

// Grid: n_head × (rows or sequences) blocks of 4·dim_v threads.
struct MambaParams {
    StateParams state;
    const float* input;  // [rows][stride]: z of all heads, then the channels: x of all heads, B and C of all groups; then dt of each head
    const float* conv;   // [channels][taps]
    const float* bias;   // [channels] of the convolution, or null
    const float* dt;     // [n_head], joins dt
    const float* a;      // [n_head]
    const float* d;      // [n_head]
    float* y;            // [rows][n_head][dim_v]
    int n_group, n_head;  // a group of consecutive heads shares B and C
    int dim_k;            // elements of B and C: at most 128, a multiple of 4
    int dim_v;            // elements of x: at most 128, a multiple of 8
    int taps;             // 2 to 8
    int stride;           // a multiple of 4
};

DEVICE int inner_of(const MambaParams& p) { return p.n_head * p.dim_v; }

DEVICE const float* channels_of(const MambaParams& p, int row) { return p.input + (size_t)row * p.stride + inner_of(p); }

DEVICE int channel_of(const MambaParams& p, const HeadIndex& h, int which) {
    if (which == VALUE) return h.v * p.dim_v;
    return inner_of(p) + ((which == QUERY ? p.n_group : 0) + h.k) * p.dim_k;
}

DEVICE float bias_of(const MambaParams& p, int channel) { return p.bias ? p.bias[channel] : 0.0f; }

// B, C and x of tokens first..first + n of a run, convolved; and their time steps.
DEVICE void stage(const MambaParams& p, const StateRun& run, const HeadIndex& h, const HeadShared& s, int first, int n) {
    for (int task = warp(); task < 4 * n; task += blockDim.x / 32) {
        int t = task / 4, which = task % 4, i = 4 * lane();
        if (which > VALUE) continue;
        float x[4] = {};
        if (i < dim_of(p, which)) convolve(p, run, h, s, first + t, which, i, x);
        float (*to)[MAX_STATE] = which == QUERY ? s.q : which == KEY ? s.k : s.v;
        *(float4*)(to[t] + i) = {x[0], x[1], x[2], x[3]};
    }
    if ((int)threadIdx.x < n) {
        const float* row = p.input + (size_t)(run.from + first + threadIdx.x) * p.stride;
        const float dt = softplus(sum(row[p.stride - p.n_head + h.v], p.dt[h.v]));
        s.decay[threadIdx.x] = expf(product(dt, p.a[h.v]));
        s.share[threadIdx.x] = dt;
    }
}

// One token of the columns of a warp.
DEVICE void token(float (&state)[QUADS][4], const HeadShared& s, const Place& at, int t, float d) {
    const float x = s.v[t][at.column];
    fade(state, s, t);
    const float found = add_and_read(state, s, at, t, product(s.share[t], x));
    if (lane() < 8) s.out[t][at.column] = fmaf(d, x, found);
}

// What a head gives for tokens first..first + n: a warp for each.
DEVICE void give(const MambaParams& p, const StateRun& run, const HeadIndex& h, const HeadShared& s, int first, int n) {
    const int i = 4 * lane();
    if (i >= p.dim_v) return;
    for (int t = warp(); t < n; t += blockDim.x / 32) {
        const int row = run.from + first + t;
        const float* z = p.input + (size_t)row * p.stride + h.v * p.dim_v + i;
        float x[4];
        for (int e = 0; e < 4; e++) x[e] = product(s.out[t][i + e], product(z[e], sigmoid(z[e])));
        *(float4*)(p.y + (size_t)row * inner_of(p) + h.v * p.dim_v + i) = {x[0], x[1], x[2], x[3]};
    }
}

extern "C" __global__ void __launch_bounds__(HEAD_THREADS) mamba(const MambaParams p) {
    SHARED(float, vectors, [4][TOKENS][MAX_STATE]);
    SHARED(float, past, [MAX_TAPS - 1][3 * MAX_STATE]);
    SHARED(float, numbers, [2][TOKENS]);
    SHARED(int, range, [2]);
    const StateRun run = find_run(p.state, range);
    if (run.from == run.to) return;
    const HeadShared s = {vectors[0], vectors[1], vectors[2], vectors[3], past, numbers[0], numbers[1]};
    const int group = p.n_head / p.n_group, head = blockIdx.x;
    const HeadIndex h = {head, head / group, group};
    const Place at = place();
    const float d = p.d[head];
    float state[QUADS][4];
    load_state(p, run, head, s, at, state);
    block_sync();
#pragma unroll 1
    for (int first = 0; first < run.to - run.from;) {
        const int n = tokens_of(p.state, run, first);
        stage(p, run, h, s, first, n);
        block_sync();
#pragma unroll 1
        for (int t = 0; t < n; t++) token(state, s, at, t, d);
        block_sync();
        give(p, run, h, s, first, n);
        first += n;
        if (keeps_state(p.state, run, first)) store_state(p, run, h, s, at, first, state);
    }
}

// RMSNorm of each group of a row: x / √(mean x² + eps) · weight.
//
// Grid: groups × rows blocks of 512 threads; 64 bytes of shared memory. Moves 4 bytes per element in (they are read once more from the
// cache), 4 or 1.375 out.
struct GroupNormParams {
    const float* x;       // [rows][groups][n]
    const float* weight;  // [groups][n]
    const int* seq;       // [rows]: rows with seq < 0 are skipped
    float* y;             // as x, or null
    QuantizedActivations image;  // the same (n a multiple of 32), or null
    int n;  // a multiple of 4
    float eps;
};

extern "C" __global__ void __launch_bounds__(NORM_THREADS) group_norm(const GroupNormParams p) {
    SHARED(float, sums, [NORM_THREADS / 32]);
    if (p.seq[blockIdx.y] < 0) return;
    const size_t at = ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * p.n;
    const float* weight = p.weight + (size_t)blockIdx.x * p.n;
    float squares = 0.0f;
    for (int i = 4 * threadIdx.x; i < p.n; i += 4 * NORM_THREADS) {
        const float4 x = *(const float4*)(p.x + at + i);
        squares = fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, fmaf(x.w, x.w, squares))));
    }
    squares = warp_sum(squares);
    if (lane() == 0) sums[warp()] = squares;
    block_sync();
    const float all = warp_sum(lane() < NORM_THREADS / 32 ? sums[lane()] : 0.0f);
    const float factor = 1.0f / sqrtf(sum(all / (float)p.n, p.eps));
    // Whole warps: blocks of 32 are quantized by eight lanes together.
    for (int first = 128 * warp(); first < p.n; first += 4 * NORM_THREADS) {
        const int i = first + 4 * lane(), live = i < p.n;
        float x[4] = {};
        for (int e = 0; e < 4; e++)
            if (live) x[e] = product(product(p.x[at + i + e], factor), weight[i + e]);
        if (p.y && live) *(float4*)(p.y + at + i) = {x[0], x[1], x[2], x[3]};
        if (p.image.q) quantize_quads(p.image, at + i, x, live);
    }
}
