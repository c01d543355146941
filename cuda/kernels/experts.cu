// Which experts each token takes, the tokens of each expert, and what a token gets from its experts.
//
//   route            a warp per row: ceil(rows / 8) blocks of 256 threads, 768 bytes of shared memory. Moves 4 bytes per logit. Or one row
//                    with its norm and logits: ceil(logits / 8) blocks, 4 bytes of shared memory more per element. Moves their weights
//                    once, 16 bytes per element of the row through the caches and 8 per logit.
//   group            one block of 512 threads, 6 KB of shared memory. Moves 28 bytes per choice.
//   all_heads        one block of 512 threads, no shared memory. Moves 4 bytes per choice.
//   join_experts     ceil(n / 256) × rows blocks of 256 threads, no shared memory. Moves 4 bytes per element of each choice.
//
// A column's bits do not depend on its place among those of an expert, so these places may differ from run to run.
#include "ptx.cuh"
#include "dot.cuh"
#include "norm.cuh"

constexpr int MAX_EXPERTS = 512, MAX_CHOICES = 32;
constexpr int ROUTE_WARPS = 8, GROUP_THREADS = 512, JOIN_THREADS = 256;

enum Gating { SOFTMAX = 1, SIGMOID = 2, SOFTMAX_OF_CHOSEN = 3 };

// A choice is the place [row][slot] of an expert among those of its row. Its number is a column of what experts give.
struct Choices {
    int* chosen;          // [rows][n_used]: experts, best first, of equal ones the lower number; -1: nothing
    float* weights;       // [rows][n_used]: what their outputs are multiplied by
    ExpertTile* tiles;    // [n_tiles]: those behind the last have no columns
    int* rows_of;         // [rows * n_used]: the row of each column of the tiles
    int* choices_of;      // [rows * n_used]: and its choice
    int* ranks;           // [rows][n_used]: scratch
};

struct RouteParams {
    const float* logits;  // [rows][n_expert]
    const float* bias;    // [n_expert]: added where experts are chosen, not in their weights; or null
    const float* factor;  // [n_expert]: on the weights; or null
    const int* seq;       // [rows]: rows below 0 choose nothing
    Choices choices;
    int rows;
    int n_expert;         // at most MAX_EXPERTS
    int n_used;           // at most MAX_CHOICES
    int gating;
    int norm;             // 1: the weights of a row are divided by their sum
    float scale;          // factor on all weights
    int n_tiles;
    int width_log2;       // of the most columns of a tile
    int groups;           // of consecutive experts, at most 32; 0: none
    int groups_used;      // experts are chosen from those whose best scores have the largest sum
    int best_of_group;    // so many scores
    int pad;
};

// Larger floats have larger keys; NaN has that of -infinity. 0 is below all.
DEVICE unsigned key_of(float x) {
    const unsigned bits = x == x ? __float_as_uint(sum(x, 0.0f)) : 0xff800000u;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The float that has a key.
DEVICE float value_of(unsigned key) { return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key); }

// Lane l has experts l, l + 32, …
constexpr int EACH = MAX_EXPERTS / 32;

// The lowest of the experts with the largest key, and this key. `best`, `at`: of the lane's.
DEVICE int best_of_warp(unsigned& best, int at) {
    const unsigned own = best;
    best = warp_max(own);
    return (int)~warp_max(own == best ? ~(unsigned)at : 0u);
}

// Experts of all groups but the best ones get the key of -infinity.
DEVICE void keep_best_groups(const RouteParams& p, unsigned (&key)[EACH]) {
    const int size = p.n_expert / p.groups, l = lane();
    unsigned own = 0, taken = 0;  // the key of the sum of group l; a bit for each of the lane's experts
#pragma unroll 1
    for (int g = 0; g < p.groups; g++) {
        float total = 0.0f;
#pragma unroll 1
        for (int s = 0; s < p.best_of_group; s++) {
            unsigned best = 0;
            int at = 0;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int expert = 32 * i + l, here = expert - g * size;
                if ((here >= 0) & (here < size) & !(taken >> i & 1) & (key[i] > best)) best = key[i], at = expert;
            }
            const int expert = best_of_warp(best, at);
            total = sum(total, value_of(best));
            taken |= expert % 32 == l ? 1u << expert / 32 : 0u;
        }
        if (l == g) own = key_of(total);
    }
    int better = 0;
    for (int g = 0; g < p.groups; g++) {
        const unsigned other = shuffle(own, g);
        better += (other > own) | ((other == own) & (g < l));
    }
    unsigned kept = 0;
    for (int g = 0; g < p.groups; g++) kept |= (unsigned)shuffle((int)(better < p.groups_used), g) << g;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int expert = 32 * i + l;
        if (expert < p.n_expert && !(kept >> expert / size & 1)) key[i] = key_of(-INFINITY);
    }
}

// What an idle row chooses: nothing.
DEVICE void choose_nothing(const RouteParams& p, int row) {
    if (lane() < p.n_used) p.choices.chosen[row * p.n_used + lane()] = -1;
    if (p.rows == 1 && lane() < p.n_tiles) p.choices.tiles[lane()] = {0, 0, 0, 0};
}

// A warp chooses the experts of a row.
DEVICE void choose(const RouteParams& p, int row) {
    const int l = lane(), first = row * p.n_used;
    float x[EACH], most = -INFINITY;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int expert = 32 * i + l;
        x[i] = expert < p.n_expert ? p.logits[(size_t)row * p.n_expert + expert] : -INFINITY;
        most = fmaxf(most, x[i]);
    }
    if (p.gating == SOFTMAX) {
        most = warp_max(most);
        float total = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            x[i] = expf(x[i] - most);  // 0 where there is no expert
            total += x[i];
        }
        total = warp_sum(total);
#pragma unroll
        for (int i = 0; i < EACH; i++) x[i] /= total;
    } else if (p.gating == SIGMOID) {
#pragma unroll
        for (int i = 0; i < EACH; i++) x[i] = 1.0f / (1.0f + expf(-x[i]));
    }
    unsigned key[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int expert = 32 * i + l;
        const float bias = p.bias && expert < p.n_expert ? p.bias[expert] : 0.0f;
        key[i] = expert < p.n_expert ? key_of(p.bias ? sum(x[i], bias) : x[i]) : 0;
    }
    if (p.groups) keep_best_groups(p, key);
    // Lane s keeps choice s.
    int chosen = -1;
    float weight = 0;
#pragma unroll 1
    for (int s = 0; s < p.n_used; s++) {
        unsigned best = 0;
        int at = 0;
        float value = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (key[i] > best) best = key[i], at = 32 * i + l, value = x[i];
        }
        const int expert = best_of_warp(best, at);
        value = shuffle(value, expert % 32);
        if (l == s) chosen = expert, weight = value;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (32 * i + l == expert) key[i] = 0;
        }
    }
    const int mine = l < p.n_used;
    if (p.gating == SOFTMAX_OF_CHOSEN) {
        const float top = warp_max(mine ? weight : -INFINITY);
        weight = mine ? expf(weight - top) : 0;
        weight /= warp_sum(weight);
    }
    if (p.norm) weight /= fmaxf(warp_sum(mine ? weight : 0.0f), 6.103515625e-5f);
    weight *= p.scale;
    if (mine) {
        if (p.factor) weight *= p.factor[chosen];
        p.choices.chosen[first + l] = chosen;
        p.choices.weights[first + l] = weight;
    }
    if (p.rows == 1 && mine) {
        // Every choice is a tile.
        p.choices.tiles[l] = {chosen, l, 1, 0};
        p.choices.rows_of[l] = 0;
        p.choices.choices_of[l] = l;
    }
}

constexpr int ROUTE_MOST_CHUNKS = 96;  // of a row that is normed

struct NormRouteParams {
    NormParams norm;     // of the only row: x and x_out apart; seq and index are not used
    Segment segment[2];  // dense: the router, whose y are the logits, and what shares its input
    RouteParams route;
    unsigned* ticket;    // zero between launches
    int segments;        // 0: logits of any number of rows are there
    int ahead;           // most bytes of weights that a block prefetches while it waits for its row
};

// Element `row` of a product, in every lane.
DEVICE float dot_of(const Segment& s, int row, const float* x, int k) {
    float y[1];
    switch (s.format) {
#define CASE(number, name, F)                                            \
    case number: {                                                       \
        const unsigned char* const rows[] = {s.w + row * row_bytes<F>(k)}; \
        dot<F, 1, 1>(rows, {x, k, k, all_columns(1)}, 0, y);             \
        break;                                                           \
    }
        DENSE_FORMATS(CASE)
#undef CASE
    }
    return s.bias ? y[0] + s.bias[row] : y[0];
}

// Where a block's weights of the router lie.
DEVICE void prefetch_router(const Segment& s, int first, int k, int ahead) {
    const int bytes = s.format == 0 ? 4 * k : 2 * k, rows = min(ROUTE_WARPS, s.rows - first);
    if (rows > 0) prefetch(s.w + (size_t)first * bytes, min(rows * bytes, ahead));
}

// The logits of the only row. Every block norms it for itself, the first one for all that comes behind. Nonzero in the block that is the
// last to have its logits.
DEVICE int norm_logits(const NormRouteParams& p, float* x, float* sums) {
    const Segment &router = p.segment[0], &beside = p.segment[1];
    First<1> asked = {uniform_warp()};
    ask_weights<1, NORM_RMS>(asked, p.norm);
    if (HAS_DEPENDENT_LAUNCH) prefetch_router(router, blockIdx.x * ROUTE_WARPS, p.norm.n, p.ahead);
    depend_wait();
    if (!live(p.route.seq, 0)) return blockIdx.x == 0;
    ask_row<1>(asked, p.norm, 0);
    const int first = blockIdx.x == 0;
    norm_row<1, NORM_RMS>(p.norm, 0, asked, first ? p.norm.x_out : nullptr, sums, [&](int i, const Quad& normed) {
        if (i < p.norm.n) store_quad(x + i, normed);
        if (!first) return;
        if (p.norm.y && i < p.norm.n) store_quad(p.norm.y + i, normed);
        if (p.norm.image.q) quantize_quads(p.norm.image, i, normed.v, i < p.norm.n);
    });
    block_sync();
    const int row = blockIdx.x * ROUTE_WARPS + warp(), of = row < router.rows ? 0 : 1;
    if (row < router.rows + (p.segments > 1 ? beside.rows : 0)) {
        const Segment& s = of ? beside : router;
        const int at = of ? row - router.rows : row;
        const float y = dot_of(s, at, x, p.norm.n);
        if (lane() == 0) s.y[at] = y;
    }
    return last_block(p.ticket, gridDim.x);
}

extern "C" __global__ void __launch_bounds__(32 * ROUTE_WARPS, 2) route(const NormRouteParams p) {
    SHARED(float, sums, [NORM_SUMS<NORM_RMS> * ROUTE_MOST_CHUNKS]);
    DYN_SHARED(float, x);
    depend_launch();
    int row = blockIdx.x * ROUTE_WARPS + warp();
    if (p.segments) {
        if (!norm_logits(p, x, sums)) return;
        row = warp();
    } else {
        depend_wait();
    }
    if (row >= p.route.rows) return;
    if (live(p.route.seq, row)) {
        choose(p.route, row);
    } else {
        choose_nothing(p.route, row);
    }
}

// The choices of several rows by expert.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS) group(const RouteParams p) {
    SHARED(int, count, [MAX_EXPERTS]);
    SHARED(int, column, [MAX_EXPERTS]);  // the first of each expert
    const int n = p.rows * p.n_used, width = 1 << p.width_log2;
    count[threadIdx.x] = 0;
    block_sync();
    for (int i = threadIdx.x; i < n; i += GROUP_THREADS) {
        const int expert = p.choices.chosen[i];
        if (expert >= 0) p.choices.ranks[i] = atomic_add(&count[expert], 1);
    }
    block_sync();
    int first = 0, tile = 0, total = 0;
    for (int e = 0; e < p.n_expert; e++) {
        const int tiles = (count[e] + width - 1) >> p.width_log2;
        first += e < (int)threadIdx.x ? count[e] : 0;
        tile += e < (int)threadIdx.x ? tiles : 0;
        total += tiles;
    }
    // A thread per expert; nobody has chosen those past the last.
    static_assert(GROUP_THREADS == MAX_EXPERTS, "");
    const int own = count[threadIdx.x];
    column[threadIdx.x] = first;
    for (int i = 0; i < own; i += width, tile++) p.choices.tiles[tile] = {(int)threadIdx.x, first + i, min(width, own - i), 0};
    for (int i = total + threadIdx.x; i < p.n_tiles; i += GROUP_THREADS) p.choices.tiles[i] = {0, 0, 0, 0};
    block_sync();
    for (int row = threadIdx.x; row < p.rows; row += GROUP_THREADS) {
        for (int i = row * p.n_used; i < (row + 1) * p.n_used; i++) {
            const int expert = p.choices.chosen[i];
            if (expert < 0) continue;
            const int at = column[expert] + p.choices.ranks[i];
            p.choices.rows_of[at] = row;
            p.choices.choices_of[at] = i;
        }
    }
}

// Matrices of heads, of which each row takes all: head h that of expert h. A choice is a head of a row.
struct AllHeadsParams {
    ExpertTile* tiles;  // [n_head][ceil(rows / width)]
    int* choices_of;    // [n_head][rows]
    int rows;
    int n_head;
    int width_log2;     // of the most columns of a tile
    int pad;
};

extern "C" __global__ void __launch_bounds__(GROUP_THREADS) all_heads(const AllHeadsParams p) {
    const int width = 1 << p.width_log2, of_head = (p.rows + width - 1) >> p.width_log2;
    for (int i = threadIdx.x; i < p.n_head * of_head; i += GROUP_THREADS) {
        const int head = i / of_head, from = (i % of_head) << p.width_log2;
        p.tiles[i] = {head, head * p.rows + from, min(width, p.rows - from), 0};
    }
    for (int i = threadIdx.x; i < p.n_head * p.rows; i += GROUP_THREADS) {
        p.choices_of[i] = i % p.rows * p.n_head + i / p.rows;
    }
}

struct JoinParams {
    const float* x;        // [rows][n_used][n]: what each choice gives
    const float* weights;  // [rows][n_used]
    const float* shared;   // [rows][n]: what all rows get besides, or null
    const float* gate;     // [rows]: times the sigmoid of this, or null
    const int* seq;        // [rows]: rows below 0 are left as they are
    float* y;              // [rows][n]: their sum, best first
    int n_used;
    int n;
};

extern "C" __global__ void __launch_bounds__(JOIN_THREADS) join_experts(const JoinParams p) {
    const int row = blockIdx.y, i = blockIdx.x * JOIN_THREADS + threadIdx.x;
    if (i >= p.n || !live(p.seq, row)) return;
    const float* x = p.x + (size_t)row * p.n_used * p.n + i;
    float total = 0;
    for (int s = 0; s < p.n_used; s++) total = fmaf(p.weights[row * p.n_used + s], x[(size_t)s * p.n], total);
    if (p.shared) {
        const float shared = p.shared[(size_t)row * p.n + i];
        total = p.gate ? fmaf(shared, 1.0f / (1.0f + expf(-p.gate[row])), total) : sum(shared, total);
    }
    p.y[(size_t)row * p.n + i] = total;
}
