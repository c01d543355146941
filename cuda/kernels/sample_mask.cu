// Step 0 of sampling (src/sampler.rs): tokens that may not come next have a logit of -inf.
//
// Launched before sample_scan, when all before it has ended, for the rows that have a mask; others are not touched. NaN and
// +inf stay, as on the CPU: they say that the model's arithmetic has failed, whatever may come next. A mask that allows nothing
// leaves -inf alone, of which the scan says NO_TOKEN.
//
// Grid: ceil(vocab / 1024) × masks blocks of 256 threads; four words of the mask per warp, whose lanes have a token each of every
// word. Moves 4 bytes in per logit, 4 out per token that may not come, and a bit per token.
#include "ptx.cuh"

static constexpr int MASK_WARPS = 8, MASK_WORDS = 4;

struct MaskParams {
    float* logits;        // [rows][vocab], changed in place
    const unsigned* mask; // [masks][vocab / 32, rounded up]: bit i % 32 of word i / 32 says whether token i may come next
    const int* row;       // [masks]: the row of the logits that each is for, different ones
    int vocab, masks;
};

extern "C" __global__ void __launch_bounds__(256) sample_mask(const MaskParams p) {
    const int words = (p.vocab + 31) / 32, first = (blockIdx.x * MASK_WARPS + warp()) * MASK_WORDS;
    float* logits = p.logits + (long long)p.row[blockIdx.y] * p.vocab;
    const unsigned* mask = p.mask + (long long)blockIdx.y * words;
    float logit[MASK_WORDS];
    unsigned word[MASK_WORDS];
    // All loads before the first use: they are under way together.
    for (int i = 0; i < MASK_WORDS; i++) {
        const int token = 32 * (first + i) + lane();
        logit[i] = token < p.vocab ? logits[token] : INFINITY;
        word[i] = first + i < words ? mask[first + i] : 0;
    }
    for (int i = 0; i < MASK_WORDS; i++) {
        const int allowed = word[i] >> lane() & 1;
        if (!allowed && logit[i] < INFINITY) logits[32 * (first + i) + lane()] = -INFINITY;
    }
}
