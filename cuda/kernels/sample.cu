// From the logits of a row to its next token, exactly the one that the CPU sampler draws.
//
// Three launches, many blocks per row in each; the block that arrives last finishes:
//   sample_scan   bias and penalties (in place), the best logit, whether all are finite; greedy rows end here;
//   sample_bins   a histogram of the logits below the best: in which bins top-k and top-p end;
//   sample_draw   weights of the tokens that surely stay, per chunk; the last block settles the bins in question, draws,
//                 moves the state on and tells the host.
// Everything that changes from step to step is in device memory, so the launches can be replayed as they are.
// Step 0, masks, is in sample_mask.cu. Before them, where a sequence begins or goes on from somewhere else:
//   sample_restart   its parameters, and how often the penalties see each token.
//
// Grid: ceil(vocab / 4096), at most 64, × rows blocks of 256 threads, a warp per chunk of 512 tokens; sample_restart one block.
// Shared memory: 28 KB of sample_bins and sample_draw. Moves 4 bytes per logit in each launch (with penalties sample_scan 4 more in, and
// 4 out per token that they see), and per block up to 12 bytes per bin; sample_restart 4 bytes per token, where there are penalties.
#include "ptx.cuh"
#include "sample_search.cuh"

// How a sequence is sampled, and how far it has come.
struct Sampling {
    u64 seed;
    u64 position;    // tokens accepted so far
    float temperature; // 0 or less: greedy
    int top_k;       // 0: off
    float top_p;     // 1 or more: off
    float ln_min_p;  // -inf: off
    float repeat, frequency, presence;
    int window;      // tokens that the penalties see; 0: none, penalties are off; -1: all
};

struct Bias {
    int token;
    float value;
};

// What the host reads.
struct SampledToken {
    unsigned sequence; // 1, 2, 3 …: written last; 0 while the rest is
    int token;         // the token; the first bad one if not finite
    int status;
    float value;       // its logit
};

enum { DRAWN = 0, NOT_FINITE = 1, NO_TOKEN = 2, NOT_REACHED = 3 };

// What each launch of a step leaves for the next.
struct Cut {
    u64 p_base, total_base; // weights before the bins in question
    int status;
    float best; // the best logit
    // Bins below `sure` are in the set as far as top-k and top-p go.
    int sure;
    int k_bin, k_left;            // top-k ends in this bin, with its first k_left tokens; -1: no end
    int p_first, p_last;          // top-p ends in one of these bins; none if the first is greater
    int total_first, total_last;  // top-p's total is total_base and what top-k leaves of these bins
    int pad;
};

// What a sequence keeps from step to step, and the blocks of a launch tell each other. Zeros at first.
struct Work {
    u64 best; // ~code of the best token so far
    u64 bad;  // ~id of the first token that is not finite
    unsigned ticket[3];
    unsigned published;  // steps that the host was told of
    unsigned candidates;
    int biases;          // entries of the sequence's list, sorted by token
    Cut cut;
};
static_assert(sizeof(Sampling) == 48 && sizeof(Work) == 96 && sizeof(SampledToken) == 16, "as the host has them");

struct SampleParams {
    float* logits;        // [rows][vocab]; bias and penalties change them
    int* token;           // [rows]: the tokens drawn
    int* pos;             // [rows]: one more
    const int* seq;       // [rows]: the sequence, below 0: an idle row
    const int* drawn;     // null; or [rows]: what was drawn behind the token before the row's. Where that is another one than the row's
                          // `token`, which was a guess, nothing is drawn
    Sampling* sampling;   // [sequences], as all below
    Work* work;
    unsigned* counts;     // [vocab]: occurrences that the penalties see
    int* history;         // [history_len]: a ring of `window` tokens
    const Bias* bias;     // [bias_len]
    u64* totals;          // [vocab / CHUNK, rounded up]
    u64* candidates;      // [LISTED]: codes of tokens in the bins in question
    u64* bin_mass;        // [BINS]
    unsigned* bin_count;  // [BINS]
    SampledToken* ring;          // [ring_len], in host memory
    int vocab, history_len, bias_len, ring_len;
};

// Candidates that are listed; where there are more, the last block goes through all logits.
static constexpr int LISTED = 2048;
// Up to this k all of top-k are candidates, and weights wait until the candidates are known.
static constexpr int SMALL_K = 1024;

// The parts of the arrays that belong to one row.
struct Row {
    float* logits;
    Sampling* sampling;
    Work* work;
    unsigned* counts;
    int* history;
    const Bias* bias;
    u64* totals;
    u64* candidates;
    u64* bin_mass;
    unsigned* bin_count;
    SampledToken* ring;
};

static __device__ inline int chunks_of(int vocab) { return (vocab + CHUNK - 1) / CHUNK; }

// The block's row; 0 if it is idle.
static __device__ inline int open_row(const SampleParams& p, Row& row) {
    const long long at = p.seq[blockIdx.y], vocab = p.vocab;
    if (at < 0) return 0;
    row.logits = p.logits + blockIdx.y * vocab;
    row.sampling = p.sampling + at;
    row.work = p.work + at;
    row.counts = p.counts + at * vocab;
    row.history = p.history + at * p.history_len;
    row.bias = p.bias + at * p.bias_len;
    row.totals = p.totals + at * chunks_of(p.vocab);
    row.candidates = p.candidates + at * LISTED;
    row.bin_mass = p.bin_mass + at * BINS;
    row.bin_count = p.bin_count + at * BINS;
    row.ring = p.ring + at * p.ring_len;
    return 1;
}

// Whether a row's token is what was drawn for its place, as it is where it was no guess.
static __device__ inline int is_reached(const SampleParams& p, const Row& row) {
    return !p.drawn || (row.work->cut.status == DRAWN && p.drawn[blockIdx.y] == p.token[blockIdx.y]);
}

// The warps of a row's blocks share its chunks; f(token) for the tokens of one chunk.
static __device__ inline int first_chunk() { return blockIdx.x * SAMPLE_WARPS + warp(); }
static __device__ inline int chunk_step() { return gridDim.x * SAMPLE_WARPS; }
template <class F>
static __device__ inline void each_of_chunk(int chunk, int vocab, F f) {
    for (int i = 0; i < CHUNK; i += 32) {
        const int token = chunk * CHUNK + i + lane();
        if (token < vocab) f(token);
    }
}

// Step 1: the pairs in their order; the list is sorted by token, stably, so one thread has all of a token.
static __device__ inline void add_biases(const SampleParams& p, const Row& row) {
    const int biases = row.work->biases;
    for (int i = threadIdx.x; i < biases; i += SAMPLE_THREADS) {
        const int token = row.bias[i].token;
        const int first = i == 0 || row.bias[i - 1].token != token;
        const int mine = (unsigned)(token / CHUNK / SAMPLE_WARPS) % gridDim.x == blockIdx.x;
        if (!first || !mine) continue;
        float logit = row.logits[token];
        for (int j = i; j < biases && row.bias[j].token == token; j++) logit = sum(logit, row.bias[j].value);
        row.logits[token] = logit;
    }
    block_sync();
}

// Step 2.
static __device__ inline float penalised(const Sampling& s, float logit, unsigned count) {
    const float repeated = logit > 0.0f ? logit / s.repeat : product(logit, s.repeat);
    return repeated - sum(product((float)count, s.frequency), s.presence);
}

static __device__ inline void publish(const SampleParams& p, const Row& row, int status, int token, float value) {
    const unsigned sequence = row.work->published + 1;
    row.work->published = sequence;
    SampledToken* entry = row.ring + (sequence - 1) % (unsigned)p.ring_len;
    // The entry is of no step until all of it is there.
    system_store((uint4*)entry, {0, (unsigned)token, (unsigned)status, __float_as_uint(value)});
    system_fence();
    system_store(&entry->sequence, sequence);
}

// One thread: takes the token as the sampler's `accept` does, and passes it on.
static __device__ inline void accept(const SampleParams& p, const Row& row, int token) {
    Sampling* s = row.sampling;
    const u64 position = s->position;
    if (s->window != 0) row.counts[token]++;
    if (s->window > 0) {
        int* place = row.history + position % (u64)s->window;
        if (*place >= 0 && *place < p.vocab) row.counts[*place]--; // below 0: none yet
        *place = token;
    }
    s->position = position + 1;
    p.token[blockIdx.y] = token;
    p.pos[blockIdx.y]++;
    publish(p, row, DRAWN, token, row.logits[token]);
}

static __device__ inline Cut no_cut(int status, float best) {
    return {0, 0, status, best, BINS, -1, 0, BINS, -1, BINS, -1, 0};
}

// After the scan: greedy rows and failed ones end here.
static __device__ inline void conclude_scan(const SampleParams& p, const Row& row) {
    Work* work = row.work;
    const u64 found = work->best, bad = work->bad;
    work->best = work->bad = 0;
    const float best = found ? logit_of(~found & ((1ull << CODE_BITS) - 1)) : 0.0f;
    work->cut = no_cut(bad ? NOT_FINITE : found ? DRAWN : NO_TOKEN, best);
    if (bad) {
        const int token = (int)~bad;
        publish(p, row, NOT_FINITE, token, row.logits[token]);
    } else if (!found) {
        publish(p, row, NO_TOKEN, 0, -INFINITY);
    } else if (row.sampling->temperature <= 0.0f) {
        accept(p, row, token_of(~found));
    }
}

// Bias and penalties, the best logit, and whether all are finite.
static __device__ inline void scan(const SampleParams& p, const Row& row) {
    const Sampling s = *row.sampling;
    if (row.work->biases) add_biases(p, row);
    const int penalties = s.window != 0;
    u64 best = 0;
    for (int chunk = first_chunk(); chunk < chunks_of(p.vocab); chunk += chunk_step()) {
        // All loads before the first use: they are under way together.
        float logits[CHUNK / 32];
        for (int i = 0; i < CHUNK / 32; i++) {
            const int token = chunk * CHUNK + 32 * i + lane();
            logits[i] = token < p.vocab ? row.logits[token] : -INFINITY;
        }
        for (int i = 0; i < CHUNK / 32; i++) {
            const int token = chunk * CHUNK + 32 * i + lane();
            float logit = logits[i];
            const unsigned count = penalties && token < p.vocab ? row.counts[token] : 0;
            if (count) row.logits[token] = logit = penalised(s, logit, count);
            if (!(logit < INFINITY)) {
                atomic_max(&row.work->bad, ~(u64)token);
            } else if (logit > -INFINITY) {
                best = max(best, ~code_of(logit, token));
            }
        }
    }
    best = warp_max(best);
    if (lane() == 0 && best) atomic_max(&row.work->best, best);
}

extern "C" __global__ void __launch_bounds__(256, 4) sample_scan(const SampleParams p) {
    depend_launch();
    depend_wait();
    Row row;
    if (!open_row(p, row)) return;
    const int reached = is_reached(p, row);
    if (reached) scan(p, row);
    if (!last_block(&row.work->ticket[0], gridDim.x) || threadIdx.x != 0) return;
    if (reached) {
        conclude_scan(p, row);
    } else {
        // The launches behind this one, and guesses behind this one, look there.
        row.work->cut.status = NOT_REACHED;
    }
}

// Whether the histogram needs weights: to end top-p, unless all of top-k are candidates.
static __device__ inline int needs_weights(const Sampling& s) {
    return s.top_p < 1.0f && (s.top_k == 0 || s.top_k > SMALL_K);
}

// In which bins top-k and top-p end. All threads; the bins are in shared memory.
static __device__ Cut find_ends(Shared& shared, const Sampling& s, float best) {
    const Sum none = {0, 0};
    Cut cut = no_cut(DRAWN, best);
    const Crossing k = first_bin(shared, none, Enough{(u64)s.top_k, -1.0});
    const int ends = s.top_k > 0 && (u64)s.top_k < k.total.count; // top-k takes something away
    if (ends) {
        cut.k_bin = cut.sure = k.index;
        cut.k_left = s.top_k - (int)k.before.count;
    }
    if (needs_weights(s)) {
        // Top-p's total lies between these two; so does its end.
        const u64 least = ends ? k.before.mass : k.total.mass;
        const u64 most = ends ? least + shared.mass[k.index] : least;
        const Crossing low = first_bin(shared, none, Enough{0, product((double)s.top_p, (double)least)});
        const Crossing high = first_bin(shared, none, Enough{0, product((double)s.top_p, (double)most)});
        cut.p_first = cut.sure = low.index;
        cut.p_last = high.index;
        cut.p_base = low.before.mass;
        cut.total_base = least;
        if (ends) cut.total_first = cut.total_last = k.index;
    } else if (s.top_p < 1.0f) {
        cut.p_first = cut.total_first = cut.sure = 0;
        cut.p_last = cut.total_last = ends ? k.index : BINS - 1;
    }
    // Where min-p ends before both there is nothing to settle.
    return cut.sure > bin_of(best, sum(best, s.ln_min_p)) ? no_cut(DRAWN, best) : cut;
}

extern "C" __global__ void __launch_bounds__(256, 2) sample_bins(const SampleParams p) {
    depend_launch();
    depend_wait();
    Row row;
    if (!open_row(p, row)) return;
    const Sampling s = *row.sampling;
    Work* work = row.work;
    const float best = work->cut.best;
    if (s.temperature <= 0.0f || work->cut.status != DRAWN || (s.top_k == 0 && s.top_p >= 1.0f)) return;
    SHARED(Shared, shared, [1]);
    clear_bins(shared[0]);
    const int weights = needs_weights(s);
    for (int chunk = first_chunk(); chunk < chunks_of(p.vocab); chunk += chunk_step()) {
        each_of_chunk(chunk, p.vocab, [&](int token) {
            const float logit = row.logits[token];
            if (logit > -INFINITY) add_to_bin(shared[0], bin_of(best, logit), weights ? weight(logit - best) : 0);
        });
    }
    block_sync();
    for (int i = threadIdx.x; i < BINS; i += SAMPLE_THREADS) {
        if (shared[0].count[i]) atomic_add(&row.bin_count[i], shared[0].count[i]);
        if (shared[0].mass[i]) atomic_add(&row.bin_mass[i], shared[0].mass[i]);
    }
    if (!last_block(&work->ticket[1], gridDim.x)) return;
    for (int i = threadIdx.x; i < BINS; i += SAMPLE_THREADS) {
        shared[0].count[i] = row.bin_count[i];
        shared[0].mass[i] = row.bin_mass[i];
        row.bin_count[i] = 0;
        row.bin_mass[i] = 0;
    }
    block_sync();
    const Cut cut = find_ends(shared[0], s, best);
    if (threadIdx.x == 0) work->cut = cut;
}

// What the last block of sample_draw looks at to settle where the set ends: the tokens in question.
struct Ending {
    const Row& row;
    const Cut& cut;
    int vocab;
    unsigned candidates;

    __device__ int in_question(int bin) const {
        return bin >= cut.sure && (bin == cut.k_bin || (cut.p_first <= bin && bin <= cut.p_last));
    }
    // f(code, bin, logit), in any order.
    template <class F> __device__ void each(F f) const {
        const int listed = candidates <= LISTED, n = listed ? (int)candidates : vocab;
        for (int i = threadIdx.x; i < n; i += SAMPLE_THREADS) {
            const u64 code = listed ? row.candidates[i] : code_of(row.logits[i], i);
            const float logit = logit_of(code);
            if (!(logit > -INFINITY)) continue;
            const int bin = bin_of(cut.best, logit);
            if (in_question(bin)) f(code, bin, logit);
        }
    }
};

// Those of them from a bin on and up to a code. Of bins behind the last one that is meant none is in question, or all of their
// tokens come after the one that is looked for.
struct Part {
    const Ending& ending;
    int first;
    u64 limit;
    int weights; // 0: f is told that they weigh nothing

    // f(code, weight)
    template <class F> __device__ void each(F f) const {
        const float best = ending.cut.best;
        ending.each([&](u64 code, int bin, float logit) {
            if (first <= bin && code <= limit) f(code, weights ? weight(logit - best) : 0);
        });
    }
};

// The code of the last token of the set, as far as top-k and top-p go.
static __device__ u64 last_of_set(Shared& shared, const Sampling& s, const Ending& ending) {
    const Cut& cut = ending.cut;
    u64 last = EVERY_CODE;
    if (cut.k_bin >= 0) {
        const Part part = {ending, cut.k_bin, EVERY_CODE, 0};
        last = last_of_prefix(shared, Sum{0, 0}, Enough{(u64)cut.k_left, -1.0}, part);
    }
    if (cut.p_first > cut.p_last) return last;
    Sum own = {0, 0}, total;
    const Part all = {ending, cut.total_first, last, 1};
    all.each([&](u64, u64 mass) { own.mass += mass; });
    prefix_of(shared, own, total);
    const double share = product((double)s.top_p, (double)(total.mass + cut.total_base));
    const Part part = {ending, cut.p_first, last, 1};
    return last_of_prefix(shared, Sum{0, cut.p_base}, Enough{0, share}, part);
}

// Step 9: the token whose running total, by id, is the first beyond the random number's share.
static __device__ int draw(Shared& shared, const SampleParams& p, const Row& row, const Sampling& s, u64 last) {
    const float best = row.work->cut.best, least = sum(best, s.ln_min_p);
    const u64 random = random_at(s.seed, s.position);
    const Crossing chunk = first_enough(
        shared, chunks_of(p.vocab), Sum{0, 0}, [&](int i) { return Sum{0, row.totals[i]}; },
        [&](Sum sum, Sum total) { return sum.mass > __umul64hi(random, total.mass); });
    const u64 target = __umul64hi(random, chunk.total.mass);
    const int start = chunk.index * CHUNK;
    const Crossing token = first_enough(
        shared, min(CHUNK, p.vocab - start), chunk.before,
        [&](int i) {
            const float logit = row.logits[start + i];
            const int in = logit >= least && code_of(logit, start + i) <= last;
            return Sum{0, in ? weight((logit - best) / s.temperature) : 0};
        },
        [&](Sum sum, Sum) { return sum.mass > target; });
    return start + token.index;
}

extern "C" __global__ void __launch_bounds__(256, 2) sample_draw(const SampleParams p) {
    depend_launch();
    depend_wait();
    Row row;
    if (!open_row(p, row)) return;
    const Sampling s = *row.sampling;
    const Cut cut = row.work->cut;
    if (s.temperature <= 0.0f || cut.status != DRAWN) return;
    SHARED(Shared, shared, [1]);
    const float best = cut.best, least = sum(best, s.ln_min_p);
    Ending ending = {row, cut, p.vocab, 0};
    for (int chunk = first_chunk(); chunk < chunks_of(p.vocab); chunk += chunk_step()) {
        u64 total = 0;
        each_of_chunk(chunk, p.vocab, [&](int token) {
            const float logit = row.logits[token];
            if (!(logit > -INFINITY)) return;
            const int bin = bin_of(best, logit);
            if (bin < cut.sure) {
                if (logit >= least) total += weight((logit - best) / s.temperature);
            } else if (ending.in_question(bin)) {
                const unsigned at = atomic_add(&row.work->candidates, 1u);
                if (at < LISTED) row.candidates[at] = code_of(logit, token);
            }
        });
        total = warp_sum(total);
        if (lane() == 0) row.totals[chunk] = total;
    }
    if (!last_block(&row.work->ticket[2], gridDim.x)) return;
    u64 last = EVERY_CODE;
    if (cut.sure < BINS) {
        ending.candidates = row.work->candidates;
        last = last_of_set(shared[0], s, ending);
        ending.each([&](u64 code, int, float logit) {
            if (code > last || logit < least) return;
            atomic_add(&row.totals[token_of(code) / CHUNK], weight((logit - best) / s.temperature));
        });
        block_sync();
    }
    const int token = draw(shared[0], p, row, s, last);
    if (threadIdx.x != 0) return;
    row.work->candidates = 0;
    accept(p, row, token);
}

struct RestartParams {
    Sampling sampling;
    Sampling* to;
    Work* work;
    unsigned* counts;   // [vocab]
    const int* history; // [recent]: what the penalties see already
    int vocab, recent, biases, pad;
};

// A sequence begins, or goes on with other parameters or another past. One block. Starts when all before it has ended.
extern "C" __global__ void __launch_bounds__(256) sample_restart(const RestartParams p) {
    depend_launch();
    if (threadIdx.x == 0) {
        *p.to = p.sampling;
        p.work->biases = p.biases;
    }
    if (p.sampling.window == 0) return;
    for (int i = threadIdx.x; i < p.vocab; i += SAMPLE_THREADS) p.counts[i] = 0;
    block_sync();
    for (int i = threadIdx.x; i < p.recent; i += SAMPLE_THREADS) {
        const int token = p.history[i];
        if (token >= 0 && token < p.vocab) atomic_add(&p.counts[token], 1u);
    }
}
