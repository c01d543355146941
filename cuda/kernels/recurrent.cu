// Layers that keep a state in place of keys and values: gated delta nets and short convolutions, for decode and prefill.
//
// States lie in pages as keys do: the page of a block of 64 positions has the state after the last token that was stored there,
// so that a sequence can go on from the end of any block whose page is kept. Rows go one by one, each of a sequence of its own, or
// all rows of a sequence are taken in turn by the same blocks; a token's bits are the same.
#include "ptx.cuh"

#include "cache.cuh"
#include "image.cuh"

enum { MAX_TAPS = 8, MAX_STATE = 128, DELTA_THREADS = 512, CONV_THREADS = 128 };

// What the rows of a launch are, and the states of their sequences.
struct StateParams {
    float* pages;      // [page][len]
    const int* table;  // [seq][slots]: page of position p is entry (p / 64) % slots
    const int* pos;    // [rows]
    const int* seq;    // [rows]: rows with seq < 0 are skipped
    int slots;
    int len;        // floats of a page
    int rows;
    int sequences;  // 0: a row for each blockIdx.y. Else blockIdx.y has all rows of the sequence of that number: they follow each
                    // other, with positions that do
};

// The rows from..to of one sequence, the first at position `pos`.
struct Run {
    int seq, from, to, pos;
};

// By the whole block. `range`: two ints of shared memory.
DEVICE Run find_run(const StateParams& p, int* range) {
    int row = blockIdx.y;
    if (!p.sequences) return {p.seq[row], row, p.seq[row] < 0 ? row : row + 1, p.pos[row]};
    if (threadIdx.x == 0) range[0] = range[1] = 0;
    block_sync();
    for (int i = threadIdx.x; i < p.rows; i += blockDim.x) {
        const int here = p.seq[i] == row, before = p.seq[max(i - 1, 0)], after = p.seq[min(i + 1, p.rows - 1)];
        if (here & ((i == 0) | (before != row))) range[0] = i;
        if (here & ((i + 1 == p.rows) | (after != row))) range[1] = i + 1;
    }
    block_sync();
    return {row, range[0], range[1], p.pos[range[0]]};
}

DEVICE float* page_of(const StateParams& p, int seq, int position) {
    return p.pages + (size_t)p.table[(size_t)seq * p.slots + position / PAGE % p.slots] * p.len;
}

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// A gated delta net. Of each value head with matrix S, for a query q and a key k of length 1 and a value v:
// S *= decay; S += k·(β·(v − Sᵀk))ᵀ; out = Sᵀq; y = rms(out)·norm·silu(z).
//
// Grid: n_head_v × (rows or sequences) blocks of 4·dim_v threads; 20 KB of shared memory. A warp has eight columns of S in
// registers, four lanes each, which need nothing of the other columns. Moves S once in and once out per run (4 bytes per element), and
// once more out per 64 positions; convolves queries and keys again for each value head.
struct DeltaNetParams {
    StateParams state;   // a page has of each value head S as [dim_v][dim_k], then the inputs [taps − 1][2·dim_k + dim_v] of its
                         // query, key and value that the convolution still needs
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

constexpr int TOKENS = 8;  // that are convolved together

struct DeltaShared {
    float (*q)[MAX_STATE], (*k)[MAX_STATE], (*v)[MAX_STATE], (*out)[MAX_STATE];  // [TOKENS]
    float (*past)[3 * MAX_STATE];                                               // [taps − 1]
    float *decay, *beta;                                                         // [TOKENS]
};

// A value head and its key head.
struct Heads {
    int v, k, group;
};

// Input of a channel `back` tokens before run token `token`. `which`: 0 query, 1 key, 2 value.
DEVICE int channel_of(const DeltaNetParams& p, const Heads& h, int which) {
    int keys = p.n_head_k * p.dim_k;
    return which == 2 ? 2 * keys + h.v * p.dim_v : which * keys + h.k * p.dim_k;
}

DEVICE float4 input_at(const DeltaNetParams& p, const Run& run, const DeltaShared& s, int token, int which, int channel, int i) {
    if (token < 0) return *(const float4*)(s.past[p.taps - 1 + token] + which * MAX_STATE + i);
    int channels = 2 * p.n_head_k * p.dim_k + p.n_head_v * p.dim_v;
    return *(const float4*)(p.input + (size_t)(run.from + token) * channels + channel + i);
}

// Queries, keys and values of tokens first..first + n of a run: convolved, gated, of length 1; and what their heads do to the state.
DEVICE void stage(const DeltaNetParams& p, const Run& run, const Heads& h, const DeltaShared& s, int first, int n) {
    for (int task = warp(); task < 4 * n; task += blockDim.x / 32) {
        int t = task / 4, which = task % 4, i = 4 * lane(), dim = which == 2 ? p.dim_v : p.dim_k;
        if (which == 3) continue;
        float x[4] = {};
        if (i < dim) {
            int channel = channel_of(p, h, which);
            for (int j = 0; j < p.taps; j++) {
                float4 in = input_at(p, run, s, first + t - p.taps + 1 + j, which, channel, i);
                float part[4] = {in.x, in.y, in.z, in.w};
                for (int e = 0; e < 4; e++) x[e] = fmaf(p.conv[(size_t)(channel + i + e) * p.taps + j], part[e], x[e]);
            }
            for (int e = 0; e < 4; e++) x[e] = product(x[e], sigmoid(x[e]));
        }
        float squares = 0.0f;
        for (int e = 0; e < 4; e++) squares = fmaf(x[e], x[e], squares);
        float length = sqrtf(sum(warp_sum(squares), p.eps));
        float factor = which == 2 ? 1.0f : which == 1 ? 1.0f / length : 1.0f / (length * sqrtf((float)p.dim_k));
        float (*to)[MAX_STATE] = which == 0 ? s.q : which == 1 ? s.k : s.v;
        *(float4*)(to[t] + i) = {product(x[0], factor), product(x[1], factor), product(x[2], factor), product(x[3], factor)};
    }
    if ((int)threadIdx.x < n) {
        int row = run.from + first + threadIdx.x;
        size_t at = p.grouped ? (size_t)row * 2 * p.n_head_v + h.v + h.v / h.group * h.group : (size_t)row * p.n_head_v + h.v;
        float x = sum(p.alpha[at], p.dt[h.v]);
        float softplus = sum(fmaxf(x, 0.0f), log1pf(expf(-fabsf(x))));
        s.decay[threadIdx.x] = expf(product(softplus, p.a[h.v]));
        s.beta[threadIdx.x] = sigmoid(p.beta[at]);
    }
}

// Where a lane stands: column of S, and the first of its rows, 4 of each 16.
struct Place {
    int column, row;
};

constexpr int QUADS = MAX_STATE / 16;  // of rows that a lane has

// Elements 4i to 4i + 3 of a lane's rows of a vector.
DEVICE float4 quad(const float* vector, const Place& at, int i) { return *(const float4*)(vector + at.row + 16 * i); }

// One token of the columns of a warp; rows past dim_k are zeros.
DEVICE void token(float (&state)[QUADS][4], const DeltaShared& s, const Place& at, int t) {
    float decay = s.decay[t], found[4] = {};
    for (int i = 0; i < QUADS; i++) {
        float4 k = quad(s.k[t], at, i);
        float key[4] = {k.x, k.y, k.z, k.w};
        for (int e = 0; e < 4; e++) {
            state[i][e] = product(state[i][e], decay);
            found[e] = fmaf(state[i][e], key[e], found[e]);
        }
    }
    float v = sum(sum(found[0], found[1]), sum(found[2], found[3]));
    v = sum(v, shuffle_xor(v, 8));
    v = sum(v, shuffle_xor(v, 16));
    float delta = product(sum(s.v[t][at.column], -v), s.beta[t]), out[4] = {};
    for (int i = 0; i < QUADS; i++) {
        float4 k = quad(s.k[t], at, i), q = quad(s.q[t], at, i);
        float key[4] = {k.x, k.y, k.z, k.w}, query[4] = {q.x, q.y, q.z, q.w};
        for (int e = 0; e < 4; e++) {
            state[i][e] = fmaf(key[e], delta, state[i][e]);
            out[e] = fmaf(state[i][e], query[e], out[e]);
        }
    }
    v = sum(sum(out[0], out[1]), sum(out[2], out[3]));
    v = sum(v, shuffle_xor(v, 8));
    v = sum(v, shuffle_xor(v, 16));
    if (lane() < 8) s.out[t][at.column] = v;
}

// What a head gives for tokens first..first + n: a warp for each.
DEVICE void give(const DeltaNetParams& p, const Run& run, const Heads& h, const DeltaShared& s, int first, int n) {
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

// The state after `tokens` tokens of a run to the page of the last one.
DEVICE void store_state(const DeltaNetParams& p, const Run& run, const Heads& h, const DeltaShared& s, const Place& at, int tokens,
                        const float (&state)[QUADS][4]) {
    int past = (p.taps - 1) * (2 * p.dim_k + p.dim_v), matrix = p.dim_k * p.dim_v;
    float* to = page_of(p.state, run.seq, run.pos + tokens - 1) + (size_t)h.v * (matrix + past);
    for (int i = 0; i < QUADS; i++) {
        const float* x = state[i];
        if (at.row + 16 * i < p.dim_k) *(float4*)(to + at.column * p.dim_k + at.row + 16 * i) = {x[0], x[1], x[2], x[3]};
    }
    to += matrix;
    for (int task = warp(); task < 4 * (p.taps - 1); task += blockDim.x / 32) {
        int j = task / 4, which = task % 4, i = 4 * lane(), dim = which == 2 ? p.dim_v : p.dim_k;
        if (which == 3 || i >= dim) continue;
        float4 x = input_at(p, run, s, tokens - p.taps + 1 + j, which, channel_of(p, h, which), i);
        *(float4*)(to + j * (2 * p.dim_k + p.dim_v) + which * p.dim_k + i) = x;
    }
}

extern "C" __global__ void __launch_bounds__(DELTA_THREADS) delta_net(const DeltaNetParams p) {
    SHARED(float, vectors, [4][TOKENS][MAX_STATE]);
    SHARED(float, past, [MAX_TAPS - 1][3 * MAX_STATE]);
    SHARED(float, numbers, [2][TOKENS]);
    SHARED(int, range, [2]);
    const Run run = find_run(p.state, range);
    if (run.from == run.to) return;
    const DeltaShared s = {vectors[0], vectors[1], vectors[2], vectors[3], past, numbers[0], numbers[1]};
    const int group = p.n_head_v / p.n_head_k, head = blockIdx.x;
    const Heads h = {head, p.grouped ? head / group : head % p.n_head_k, group};
    const Place at = {8 * warp() + lane() % 8, 4 * (lane() / 8)};

    // The state before the run: that of the position before it, or nothing.
    const int width = 2 * p.dim_k + p.dim_v, matrix = p.dim_k * p.dim_v;
    const float* from = run.pos ? page_of(p.state, run.seq, run.pos - 1) + (size_t)head * (matrix + (p.taps - 1) * width) : nullptr;
    float state[QUADS][4];
    for (int i = 0; i < QUADS; i++) {
        int row = at.row + 16 * i;
        float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
        if (from && row < p.dim_k) x = *(const float4*)(from + at.column * p.dim_k + row);
        state[i][0] = x.x, state[i][1] = x.y, state[i][2] = x.z, state[i][3] = x.w;
    }
    for (int i = threadIdx.x; i < (p.taps - 1) * width; i += blockDim.x) {
        int j = i / width, channel = i % width, which = min(channel / p.dim_k, 2);
        past[j][which * MAX_STATE + channel - which * p.dim_k] = from ? from[matrix + i] : 0.0f;
    }
    block_sync();
    const int tokens = run.to - run.from;
#pragma unroll 1
    for (int first = 0; first < tokens;) {
        // Up to the end of a block of positions.
        const int n = min(min(TOKENS, tokens - first), PAGE - (run.pos + first) % PAGE);
        stage(p, run, h, s, first, n);
        block_sync();
#pragma unroll 1
        for (int t = 0; t < n; t++) token(state, s, at, t);
        block_sync();
        give(p, run, h, s, first, n);
        first += n;
        if (first == tokens || (run.pos + first) % PAGE == 0) store_state(p, run, h, s, at, first, state);
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
    const Run run = find_run(p.state, range);
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
            if (row + 1 == run.to || position % PAGE == PAGE - 1) store_inputs(p, run.seq, position, channel, inputs);
        }
        if (p.image.q) quantize_block(p.image, row, p.channels, block, y);
    }
}
