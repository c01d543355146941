// What kernels of recurrent layers share: states in pages, the rows of a launch, and heads that have a matrix each.
//
// States lie in pages as keys do: the page of a block of 64 positions has the state after the last token that was stored there,
// so that a sequence can go on from the end of any block whose page is kept. Rows go one by one, each of a sequence of its own, or
// all rows of a sequence are taken in turn by the same blocks; a token's bits are the same.
#pragma once
#include "ptx.cuh"

#include "cache.cuh"
#include "image.cuh"

enum { MAX_TAPS = 8, MAX_STATE = 128, HEAD_THREADS = 512 };

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
    int keeps;      // rows of a sequence after which its state stays; those behind them are guesses. 0: all
    int pad;
};

// The rows from..to of one sequence, the first at position `pos`.
struct StateRun {
    int seq, from, to, pos;
};

// By the whole block. `range`: two ints of shared memory.
DEVICE StateRun find_run(const StateParams& p, int* range) {
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

DEVICE float softplus(float x) { return sum(fmaxf(x, 0.0f), log1pf(expf(-fabsf(x)))); }

// Heads with a matrix S each, to which every token adds a value v where its key k says, and in which its query q finds values: gated
// delta nets, and Mamba-2, whose B are keys, whose C queries and whose x values. Queries, keys and values come out of a short
// convolution. The parameters P of either have `state`, `conv`, `dim_k`, `dim_v` and `taps`; `channels_of` says where a row has its
// channels, `channel_of` which of them are a head's, `bias_of` what the convolution adds to one.
//
// A block of 4·dim_v threads has a head, and 27 KB of shared memory. A warp has eight columns of S in registers, four lanes each,
// which need nothing of the other columns. Moves S once in and once out per run (4 bytes per element), and once more out per 64
// positions; convolves queries and keys again for each head of values.
//
// A page has of each head S as [dim_v][dim_k], then the inputs [taps − 1][2·dim_k + dim_v] of its query, key
// and value that the convolution still needs.
constexpr int TOKENS = 8;  // that are convolved together

struct HeadShared {
    float (*q)[MAX_STATE], (*k)[MAX_STATE], (*v)[MAX_STATE], (*out)[MAX_STATE];  // [TOKENS]
    float (*past)[3 * MAX_STATE];                                               // [taps − 1]
    float *decay, *share;                                                        // [TOKENS]: of S, and of a value
};

// A head of values, that of its queries and keys, and how many share the latter.
struct HeadIndex {
    int v, k, group;
};

enum { QUERY, KEY, VALUE };

template <class P>
DEVICE int dim_of(const P& p, int which) { return which == VALUE ? p.dim_v : p.dim_k; }

// Inputs of the four channels from `channel` + i on, the `i`th of a head, of a run's token; of the state below 0.
template <class P>
DEVICE float4 input_at(const P& p, const StateRun& run, const HeadShared& s, int token, int which, int channel, int i) {
    if (token < 0) return *(const float4*)(s.past[p.taps - 1 + token] + which * MAX_STATE + i);
    return *(const float4*)(channels_of(p, run.from + token) + channel + i);
}

// What the convolution gives for them, after its SiLU.
template <class P>
DEVICE void convolve(const P& p, const StateRun& run, const HeadIndex& h, const HeadShared& s, int token, int which, int i, float (&x)[4]) {
    int channel = channel_of(p, h, which);
    for (int e = 0; e < 4; e++) x[e] = bias_of(p, channel + i + e);
    for (int j = 0; j < p.taps; j++) {
        float4 in = input_at(p, run, s, token - p.taps + 1 + j, which, channel, i);
        float part[4] = {in.x, in.y, in.z, in.w};
        for (int e = 0; e < 4; e++) x[e] = fmaf(p.conv[(size_t)(channel + i + e) * p.taps + j], part[e], x[e]);
    }
    for (int e = 0; e < 4; e++) x[e] = product(x[e], sigmoid(x[e]));
}

// Where a lane stands: column of S, and the first of its rows, 4 of each 16.
struct Place {
    int column, row;
};

DEVICE Place place() { return {8 * warp() + lane() % 8, 4 * (lane() / 8)}; }

constexpr int QUADS = MAX_STATE / 16;  // of rows that a lane has; rows past dim_k are zeros

// Elements 4i to 4i + 3 of a lane's rows of a vector.
DEVICE float4 quad(const float* vector, const Place& at, int i) { return *(const float4*)(vector + at.row + 16 * i); }

// Σ over the four lanes of a column.
DEVICE float column_sum(const float (&parts)[4]) {
    float v = sum(sum(parts[0], parts[1]), sum(parts[2], parts[3]));
    v = sum(v, shuffle_xor(v, 8));
    return sum(v, shuffle_xor(v, 16));
}

// S *= decay, and Sᵀk.
DEVICE float fade_and_find(float (&state)[QUADS][4], const HeadShared& s, const Place& at, int t) {
    float decay = s.decay[t], found[4] = {};
    for (int i = 0; i < QUADS; i++) {
        float4 k = quad(s.k[t], at, i);
        float key[4] = {k.x, k.y, k.z, k.w};
        for (int e = 0; e < 4; e++) {
            state[i][e] = product(state[i][e], decay);
            found[e] = fmaf(state[i][e], key[e], found[e]);
        }
    }
    return column_sum(found);
}

// S *= decay.
DEVICE void fade(float (&state)[QUADS][4], const HeadShared& s, int t) {
    float decay = s.decay[t];
    for (int i = 0; i < QUADS; i++)
        for (int e = 0; e < 4; e++) state[i][e] = product(state[i][e], decay);
}

// S += k·δᵀ, and Sᵀq.
DEVICE float add_and_read(float (&state)[QUADS][4], const HeadShared& s, const Place& at, int t, float delta) {
    float out[4] = {};
    for (int i = 0; i < QUADS; i++) {
        float4 k = quad(s.k[t], at, i), q = quad(s.q[t], at, i);
        float key[4] = {k.x, k.y, k.z, k.w}, query[4] = {q.x, q.y, q.z, q.w};
        for (int e = 0; e < 4; e++) {
            state[i][e] = fmaf(key[e], delta, state[i][e]);
            out[e] = fmaf(state[i][e], query[e], out[e]);
        }
    }
    return column_sum(out);
}

// Floats of a page before a head's.
template <class P>
DEVICE size_t head_at(const P& p, int head) {
    return (size_t)head * (p.dim_k * p.dim_v + (p.taps - 1) * (2 * p.dim_k + p.dim_v));
}

// The state before a run: that of the position before it, or nothing. By the whole block, which has to wait for `past`.
template <class P>
DEVICE void load_state(const P& p, const StateRun& run, int head, const HeadShared& s, const Place& at, float (&state)[QUADS][4]) {
    const int width = 2 * p.dim_k + p.dim_v, matrix = p.dim_k * p.dim_v;
    const float* from = run.pos ? page_of(p.state, run.seq, run.pos - 1) + head_at(p, head) : nullptr;
    for (int i = 0; i < QUADS; i++) {
        int row = at.row + 16 * i;
        float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
        if (from && row < p.dim_k) x = *(const float4*)(from + at.column * p.dim_k + row);
        state[i][0] = x.x, state[i][1] = x.y, state[i][2] = x.z, state[i][3] = x.w;
    }
    for (int i = threadIdx.x; i < (p.taps - 1) * width; i += blockDim.x) {
        int j = i / width, channel = i % width, which = min(channel / p.dim_k, (int)VALUE);
        s.past[j][which * MAX_STATE + channel - which * p.dim_k] = from ? from[matrix + i] : 0.0f;
    }
}

// The state after `tokens` tokens of a run to the page of the last one.
template <class P>
DEVICE void store_state(const P& p, const StateRun& run, const HeadIndex& h, const HeadShared& s, const Place& at, int tokens,
                        const float (&state)[QUADS][4]) {
    float* to = page_of(p.state, run.seq, run.pos + tokens - 1) + head_at(p, h.v);
    for (int i = 0; i < QUADS; i++) {
        const float* x = state[i];
        if (at.row + 16 * i < p.dim_k) *(float4*)(to + at.column * p.dim_k + at.row + 16 * i) = {x[0], x[1], x[2], x[3]};
    }
    to += p.dim_k * p.dim_v;
    for (int task = warp(); task < 4 * (p.taps - 1); task += blockDim.x / 32) {
        int j = task / 4, which = task % 4, i = 4 * lane();
        if (which > VALUE || i >= dim_of(p, which)) continue;
        float4 x = input_at(p, run, s, tokens - p.taps + 1 + j, which, channel_of(p, h, which), i);
        *(float4*)(to + j * (2 * p.dim_k + p.dim_v) + which * p.dim_k + i) = x;
    }
}

// Tokens of a run that are not guesses.
DEVICE int kept_of(const StateParams& p, const StateRun& run) {
    const int all = run.to - run.from;
    return p.keeps ? min(p.keeps, all) : all;
}

// Tokens that are taken next of a run: up to the end of a block of positions, or to the guesses.
DEVICE int tokens_of(const StateParams& p, const StateRun& run, int first) {
    const int kept = kept_of(p, run), end = first < kept ? kept : run.to - run.from;
    return min(min(TOKENS, end - first), PAGE - (run.pos + first) % PAGE);
}

// Whether the state after a run's first tokens is kept.
DEVICE int keeps_state(const StateParams& p, const StateRun& run, int tokens) {
    const int kept = kept_of(p, run);
    return (tokens == kept) | ((tokens < kept) & ((run.pos + tokens) % PAGE == 0));
}
