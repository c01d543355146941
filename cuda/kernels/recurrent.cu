// Layers that keep a state in place of keys and values: gated delta nets and short convolutions, for decode and prefill.
#include "recurrent.cuh"

enum { CONV_THREADS = 128 };

// A gated delta net. Of each value head with matrix S, for a query q and a key k of length 1 and a value v:
// S *= decay; S += k·(β·(v − Sᵀk))ᵀ; out = Sᵀq; y = rms(out)·norm·silu(z).
//
// Grid: n_head_v × (rows or sequences) blocks of 4·dim_v threads.
struct DeltaNetParams {
    StateParams state;
    const float* input;  // [rows][channels]: queries and keys of all key heads, then values, before the convolution
    const float* z;      // [rows][n_head_v][dim_v]
    const float* alpha;  // [rows][n_head_v], or where key heads are grouped [rows][n_head_k][2·group], of which `group` are read
    const float* beta;   // likewise
    const float* conv;   // [channels][taps]
    const float* dt;     // [n_head_v]
    const float* a;      // [n_head_v]
    const float* norm;   // [dim_v]
    float* y;            // [rows][n_head_v][dim_v], or null
    QuantizedActivations image;  // the same (dim_v a multiple of 32), or null
    int n_head_k, n_head_v;  // value heads are a multiple
    int dim_k;               // at most 128, a multiple of 4
    int dim_v;               // at most 128, a multiple of 8
    int taps;                // 2 to 8
    int grouped;             // the key head of value head h: 0 h % n_head_k, 1 h / (n_head_v / n_head_k)
    float eps;
    int pad;
};

DEVICE const float* channels_of(const DeltaNetParams& p, int row) {
    return p.input + (size_t)row * (2 * p.n_head_k * p.dim_k + p.n_head_v * p.dim_v);
}

DEVICE int channel_of(const DeltaNetParams& p, const HeadIndex& h, int which) {
    int keys = p.n_head_k * p.dim_k;
    return which == VALUE ? 2 * keys + h.v * p.dim_v : which * keys + h.k * p.dim_k;
}

DEVICE float bias_of(const DeltaNetParams&, int) { return 0.0f; }

// Queries, keys and values of tokens first..first + n of a run: convolved, gated, of length 1; and what their heads do to the state.
DEVICE void stage(const DeltaNetParams& p, const StateRun& run, const HeadIndex& h, const HeadShared& s, int first, int n) {
    for (int task = warp(); task < 4 * n; task += blockDim.x / 32) {
        int t = task / 4, which = task % 4, i = 4 * lane();
        if (which > VALUE) continue;
        float x[4] = {};
        if (i < dim_of(p, which)) convolve(p, run, h, s, first + t, which, i, x);
        float squares = 0.0f;
        for (int e = 0; e < 4; e++) squares = fmaf(x[e], x[e], squares);
        float length = sqrtf(sum(warp_sum(squares), p.eps));
        float factor = which == VALUE ? 1.0f : which == KEY ? 1.0f / length : 1.0f / (length * sqrtf((float)p.dim_k));
        float (*to)[MAX_STATE] = which == QUERY ? s.q : which == KEY ? s.k : s.v;
        *(float4*)(to[t] + i) = {product(x[0], factor), product(x[1], factor), product(x[2], factor), product(x[3], factor)};
    }
    if ((int)threadIdx.x < n) {
        int row = run.from + first + threadIdx.x;
        size_t at = p.grouped ? (size_t)row * 2 * p.n_head_v + h.v + h.v / h.group * h.group : (size_t)row * p.n_head_v + h.v;
        s.decay[threadIdx.x] = expf(product(softplus(sum(p.alpha[at], p.dt[h.v])), p.a[h.v]));
        s.share[threadIdx.x] = sigmoid(p.beta[at]);
    }
}

// One token of the columns of a warp.
DEVICE void token(float (&state)[QUADS][4], const HeadShared& s, const Place& at, int t) {
    float found = fade_and_find(state, s, at, t);
    float out = add_and_read(state, s, at, t, product(sum(s.v[t][at.column], -found), s.share[t]));
    if (lane() < 8) s.out[t][at.column] = out;
}

// What a head gives for tokens first..first + n: a warp for each.
DEVICE void give(const DeltaNetParams& p, const StateRun& run, const HeadIndex& h, const HeadShared& s, int first, int n) {
    int i = 4 * lane(), live = i < p.dim_v;
    for (int t = warp(); t < n; t += blockDim.x / 32) {
        size_t at = ((size_t)(run.from + first + t) * p.n_head_v + h.v) * p.dim_v + i;
        float x[4] = {}, squares = 0.0f;
        for (int e = 0; e < 4; e++) {
            if (live) x[e] = s.out[t][i + e];
            squares = fmaf(x[e], x[e], squares);
        }
        float factor = 1.0f / sqrtf(sum(warp_sum(squares) / (float)p.dim_v, p.eps));
        for (int e = 0; e < 4; e++) {
            if (!live) continue;
            float z = p.z[at + e];
            x[e] = product(product(product(x[e], factor), p.norm[i + e]), product(z, sigmoid(z)));
        }
        if (p.y && live) *(float4*)(p.y + at) = {x[0], x[1], x[2], x[3]};
        if (p.image.q) quantize_quads(p.image, at, x, live);
    }
}

extern "C" __global__ void __launch_bounds__(HEAD_THREADS) delta_net(const DeltaNetParams p) {
    SHARED(float, vectors, [4][TOKENS][MAX_STATE]);
    SHARED(float, past, [MAX_TAPS - 1][3 * MAX_STATE]);
    SHARED(float, numbers, [2][TOKENS]);
    SHARED(int, range, [2]);
    const StateRun run = find_run(p.state, range);
    if (run.from == run.to) return;
    const HeadShared s = {vectors[0], vectors[1], vectors[2], vectors[3], past, numbers[0], numbers[1]};
    const int group = p.n_head_v / p.n_head_k, head = blockIdx.x;
    const HeadIndex h = {head, p.grouped ? head / group : head % p.n_head_k, group};
    const Place at = place();
    float state[QUADS][4];
    load_state(p, run, head, s, at, state);
    block_sync();
#pragma unroll 1
    for (int first = 0; first < run.to - run.from;) {
        const int n = tokens_of(p.state, run, first);
        stage(p, run, h, s, first, n);
        block_sync();
#pragma unroll 1
        for (int t = 0; t < n; t++) token(state, s, at, t);
        block_sync();
        give(p, run, h, s, first, n);
        first += n;
        if (keeps_state(p.state, run, first)) store_state(p, run, h, s, at, first, state);
    }
}

// A short convolution: y = c · Σ_j conv[j] · (b·x)[t − taps + 1 + j] for each channel.
//
// Grid: ceil(channels / 128) × (rows or sequences) blocks of 128 threads, one per channel; no shared memory but 8 bytes. Moves
// 12 bytes per channel and row in, 4 or 1.375 out, and 8·(taps − 1) per channel and run.
struct ShortConvParams {
    StateParams state;   // a page is [taps − 1][channels]: the last b·x
    const float* input;  // [rows][3·channels]: b, c and x
    const float* conv;   // [channels][taps]
    float* y;            // [rows][channels], or null
    QuantizedActivations image;  // the same, or null
    int channels;  // a multiple of 32 where there is an image
    int taps;      // 2 to 8
};

// The inputs that the next position still needs, oldest first.
DEVICE void store_inputs(const ShortConvParams& p, int seq, int position, int channel, const float (&inputs)[MAX_TAPS]) {
    float* to = page_of(p.state, seq, position) + channel;
    for (int j = 1; j < MAX_TAPS; j++) {
        int row = j - (MAX_TAPS - p.taps) - 1;
        if (row >= 0) to[(size_t)row * p.channels] = inputs[j];
    }
}

extern "C" __global__ void __launch_bounds__(CONV_THREADS) short_conv(const ShortConvParams p) {
    SHARED(int, range, [2]);
    const StateRun run = find_run(p.state, range);
    if (run.from == run.to) return;
    const int channel = blockIdx.x * CONV_THREADS + threadIdx.x, live = channel < p.channels, block = channel / 32;
    if (32 * block >= p.channels) return;
    // The newest last: older ones than there are taps have no weight.
    float inputs[MAX_TAPS] = {}, weights[MAX_TAPS] = {};
    const float* past = run.pos ? page_of(p.state, run.seq, run.pos - 1) + channel : nullptr;
    for (int j = 0; j < MAX_TAPS; j++) {
        int tap = j - (MAX_TAPS - p.taps);
        if (!live || tap < 0) continue;
        weights[j] = p.conv[(size_t)channel * p.taps + tap];
        if (past && tap > 0) inputs[j] = past[(size_t)(tap - 1) * p.channels];
    }
    for (int row = run.from; row < run.to; row++) {
        const int position = run.pos + row - run.from;
        float y = 0.0f;
        for (int j = 0; j + 1 < MAX_TAPS; j++) inputs[j] = inputs[j + 1];
        if (live) {
            const float* in = p.input + (size_t)row * 3 * p.channels + channel;
            inputs[MAX_TAPS - 1] = product(in[0], in[2 * (size_t)p.channels]);
            for (int j = 0; j < MAX_TAPS; j++) y = fmaf(weights[j], inputs[j], y);
            y = product(y, in[p.channels]);
            if (p.y) p.y[(size_t)row * p.channels + channel] = y;
            if (keeps_state(p.state, run, row - run.from + 1)) store_inputs(p, run.seq, position, channel, inputs);
        }
        if (p.image.q) quantize_block(p.image, row, p.channels, block, y);
    }
}

// What a draft head takes: of each row the embedding of its token, and the hidden state before it, which the sequence keeps as a
// recurrent layer keeps its state.
//
// Grid: ceil(n / 128) × (rows or sequences) blocks of 128 threads, one per element; no shared memory but 8 bytes. Moves 8 bytes per
// element and row in, 8 out, and 8 per element and run.
struct JoinHiddenParams {
    StateParams state;       // a page is [n]: the hidden state of the last token
    const float* embedding;  // [rows][n]
    const float* hidden;     // [rows][n]: of the rows' tokens; or null: rows are guesses of which no state stays
    const float* before;     // [rows][n]: the hidden states before the rows, where they are not those that sequences keep; or null
    float* y;                // [rows][2][n]: the embedding, the hidden state before
    int n;
    int pad;
};

extern "C" __global__ void __launch_bounds__(CONV_THREADS) join_hidden(const JoinHiddenParams p) {
    SHARED(int, range, [2]);
    const StateRun run = find_run(p.state, range);
    const int i = blockIdx.x * CONV_THREADS + threadIdx.x;
    if (run.from == run.to || i >= p.n) return;
    float last = p.before ? p.before[(size_t)run.from * p.n + i] : run.pos ? page_of(p.state, run.seq, run.pos - 1)[i] : 0.0f;
    for (int row = run.from; row < run.to; row++) {
        float* y = p.y + (size_t)row * 2 * p.n + i;
        y[0] = p.embedding[(size_t)row * p.n + i];
        y[p.n] = last;
        if (!p.hidden) continue;
        last = p.hidden[(size_t)row * p.n + i];
        const int tokens = row - run.from + 1;
        if (keeps_state(p.state, run, tokens)) page_of(p.state, run.seq, run.pos + tokens - 1)[i] = last;
    }
}
