// Searches of one block of SAMPLE_THREADS threads: where a running sum crosses a bound, and which token is the last of
// a prefix of the rank. Sums are sums of integers, so their order does not matter.
#pragma once
#include "sample.cuh"

struct Sum {
    u64 count; // tokens
    u64 mass;  // their weights
};

static __device__ inline Sum operator+(Sum a, Sum b) { return {a.count + b.count, a.mass + b.mass}; }

// Tokens that are ranked directly, each by one thread.
static constexpr int FEW = SAMPLE_THREADS;

// The shared memory of a block.
struct Shared {
    u64 mass[BINS];
    unsigned count[BINS];
    u64 codes[FEW], masses[FEW];
    Sum warps[SAMPLE_WARPS];
    Sum before;
    u64 last;
    int index;
    unsigned found;
};

// The sum of what the threads before this one have; `total` is that of all. The next call comes after a barrier.
static __device__ Sum prefix_of(Shared& shared, Sum own, Sum& total) {
    Sum upto = own;
    for (int step = 1; step < 32; step *= 2) {
        const Sum other = {shuffle(upto.count, (lane() - step) & 31), shuffle(upto.mass, (lane() - step) & 31)};
        if (lane() >= step) upto = upto + other;
    }
    if (lane() == 31) shared.warps[warp()] = upto;
    block_sync();
    Sum before = {upto.count - own.count, upto.mass - own.mass};
    total = {0, 0};
    for (int w = 0; w < SAMPLE_WARPS; w++) {
        if (w < warp()) before = before + shared.warps[w];
        total = total + shared.warps[w];
    }
    return before;
}

// Where a running sum becomes enough.
struct Crossing {
    int index;  // of the first item that makes it enough; -1: none does
    Sum before; // the sum up to that item, without it
    Sum total;  // the sum of everything
};

// Runs through the items 0..n in order, from `base` on: `item(i)` is the Sum of one, `enough(sum, total)` says when to stop.
template <class Item, class Enough>
static __device__ Crossing first_enough(Shared& shared, int n, Sum base, Item item, Enough enough) {
    const int each = (n + SAMPLE_THREADS - 1) / SAMPLE_THREADS;
    const int start = (int)threadIdx.x * each, end = min(start + each, n);
    Sum own = {0, 0};
    for (int i = start; i < end; i++) own = own + item(i);
    if (threadIdx.x == 0) shared.index = -1;
    Crossing crossing;
    Sum running = base + prefix_of(shared, own, crossing.total);
    crossing.total = crossing.total + base;
    if (!enough(running, crossing.total) && enough(running + own, crossing.total)) {
        for (int i = start; i < end; i++) {
            const Sum next = running + item(i);
            if (enough(next, crossing.total)) {
                shared.index = i;
                shared.before = running;
                break;
            }
            running = next;
        }
    }
    block_sync();
    crossing.index = shared.index;
    crossing.before = crossing.index < 0 ? Sum{0, 0} : shared.before;
    block_sync(); // both may be written again
    return crossing;
}

// When a prefix of the rank is long enough: it has `count` tokens, and a weight of `share`. It is never empty.
struct Enough {
    u64 count;
    double share;
    __device__ bool operator()(Sum sum, Sum) const {
        return sum.count > 0 && sum.count >= count && (double)sum.mass >= share;
    }
};

static __device__ inline void clear_bins(Shared& shared) {
    for (int i = threadIdx.x; i < BINS; i += SAMPLE_THREADS) {
        shared.count[i] = 0;
        shared.mass[i] = 0;
    }
    block_sync();
}

static __device__ inline void add_to_bin(Shared& shared, int bin, u64 mass) {
    atomic_add(&shared.count[bin], 1u);
    if (mass) atomic_add(&shared.mass[bin], mass);
}

template <class Enough>
static __device__ Crossing first_bin(Shared& shared, Sum base, Enough enough) {
    const auto bin = [&](int i) { return Sum{shared.count[i], shared.mass[i]}; };
    return first_enough(shared, BINS, base, bin, enough);
}

// The code of the last token of the shortest prefix that is enough, of the tokens that `part.each(f)` gives as f(code, weight),
// in any order but every time the same ones. EVERY_CODE if all of them together are not enough. The next call comes after
// a barrier.
template <class Part>
static __device__ u64 last_of_prefix(Shared& shared, Sum base, Enough enough, const Part& part) {
    u64 prefix = 0; // the leading bits that the last token's code has
    for (int bits = CODE_BITS;;) {
        if (threadIdx.x == 0) shared.found = 0, shared.last = EVERY_CODE;
        block_sync();
        part.each([&](u64 code, u64 mass) {
            if (code >> bits != prefix) return;
            const unsigned at = atomic_add(&shared.found, 1u);
            if (at < FEW) shared.codes[at] = code, shared.masses[at] = mass;
        });
        block_sync();
        if (shared.found <= FEW || bits == 0) break; // at 0 bits it is one token
        // Too many to compare each with each: a histogram of the next digit says which of its values to look at.
        const int width = min(bits, BIN_BITS);
        clear_bins(shared);
        part.each([&](u64 code, u64 mass) {
            if (code >> bits == prefix) add_to_bin(shared, (int)(code >> (bits - width)) & ((1 << width) - 1), mass);
        });
        block_sync();
        const Crossing digit = first_bin(shared, base, enough);
        bits -= width;
        prefix = prefix << width | (u64)digit.index;
        base = digit.before;
    }
    const unsigned found = shared.found;
    if (threadIdx.x < found) {
        const u64 code = shared.codes[threadIdx.x];
        Sum before = base;
        for (unsigned i = 0; i < found; i++) {
            if (shared.codes[i] < code) before = before + Sum{1, shared.masses[i]};
        }
        const Sum upto = before + Sum{1, shared.masses[threadIdx.x]};
        if (!enough(before, upto) && enough(upto, upto)) shared.last = code;
    }
    block_sync();
    return shared.last;
}
