// Prints what the host has to know of the kernels, for the tests that compare: `struct bytes`, `struct.field offset` and
// `constant value`, one in a line.
#include <stdio.h>

// Nobody calls the kernels: they need not become code.
#define __global__ inline

// Headers that several kernels include come first, for they are read once.
#include "activation.cuh"
#include "attention.cuh"
#include "cache.cuh"
#include "chunk.cuh"
#include "dot.cuh"
#include "image.cuh"
#include "norm.cuh"
#include "recurrent.cuh"
#include "rope.cuh"

namespace attention {
#include "attention.cu"
}
namespace attention_rows {
#include "attention_rows.cu"
}
namespace embed {
#include "embed.cu"
}
namespace experts {
#include "experts.cu"
}
namespace fragments {
#include "fragments.cu"
}
namespace gemm {
#include "gemm.cu"
}
namespace gemv {
#include "gemv.cu"
}
namespace glu {
#include "glu.cu"
}
namespace glu_act {
#include "glu_act.cu"
}
namespace mamba {
#include "mamba.cu"
}
namespace norm {
#include "norm.cu"
}
namespace probe {
#include "probe.cu"
}
namespace matrix_product {
#include "product.cu"
}
namespace quantize_act {
#include "quantize_act.cu"
}
namespace recurrent {
#include "recurrent.cu"
}
namespace repack {
#include "repack.cu"
}
namespace rope_kv {
#include "rope_kv.cu"
}
namespace sample {
#include "sample.cu"
}
namespace sample_mask {
#include "sample_mask.cu"
}

// FIELDS(S, a, b, …) prints the size of S, then the offset of a, the offset of b, …: each scan of the preprocessor takes one.
#define SCAN_64(...) SCAN_16(SCAN_16(SCAN_16(SCAN_16(__VA_ARGS__))))
#define SCAN_16(...) SCAN_4(SCAN_4(SCAN_4(SCAN_4(__VA_ARGS__))))
#define SCAN_4(...) SCAN_1(SCAN_1(SCAN_1(SCAN_1(__VA_ARGS__))))
#define SCAN_1(...) __VA_ARGS__
#define NOTHING
#define NEXT_FIELD() FIELD
#define FIELD(S, field, ...)                               \
    printf("%s.%s %zu\n", #S, #field, offsetof(S, field)); \
    __VA_OPT__(NEXT_FIELD NOTHING()(S, __VA_ARGS__))
#define FIELDS(S, ...)                \
    printf("%s %zu\n", #S, sizeof(S)); \
    SCAN_64(FIELD(S, __VA_ARGS__))
#define CONSTANT(value) printf("%s %lld\n", #value, static_cast<long long>(value));

int main() {
    FIELDS(QuantizedActivations, q, d, s)
    FIELDS(ActivationTerms, blocks, down)
    FIELDS(Cache, k, v, k_scale, v_scale, table, pages, type)
    FIELDS(Segment, w, bias, y, rows, y_stride, format, expert_rows, scale)
    FIELDS(ExpertTile, expert, first, columns, pad)
    FIELDS(MatmulParams, segment, segments, k, columns, softcap, image, x, seq, tile_shift, gated, activation, expert_tiles,
           warp_factor, row_factor, ahead, out, experts, x_columns, y_columns, terms, x_step,
           pad, weight_grid)
    FIELDS(NormParams, x, add, post, weight, x_out, seq, index, y, image, n, eps, post_eps, scale, x_scale, share, bias)
    FIELDS(GluParams, gate, up, k, columns, activation, y_stride, image, x, seq, y, out)
    FIELDS(AttentionParams, q, pos, seq, end, cache, out, image, partial, state, tickets, rows, n_head, n_head_kv, group,
           head_dim, value_dim, heads_per_tile, rows_per_tile, tiles_of_kv, place_factor, splits, parts, window, scale, softcap, growth, grows_every, gate_step, gate, sinks,
           rope)
    FIELDS(embed::EmbedParams, w, token, seq, y, rows, k, format, scale, weight_grid, add)
    FIELDS(experts::Choices, chosen, weights, tiles, rows_of, choices_of, ranks)
    FIELDS(experts::RouteParams, logits, bias, factor, seq, choices, rows, n_expert, n_used, gating, norm, scale, n_tiles,
           width_log2, groups, groups_used, best_of_group, pad)
    FIELDS(experts::NormRouteParams, norm, segment, route, ticket, segments, ahead)
    FIELDS(experts::AllHeadsParams, tiles, choices_of, rows, n_head, width_log2, pad)
    FIELDS(experts::JoinParams, x, weights, shared, gate, seq, y, n_used, n)
    FIELDS(fragments::FragmentsParams, op, pad, a, b, c)
    FIELDS(glu_act::GluActParams, gate, up, stride, rows, columns, activation, y, y_stride, up_stride, out, seq)
    FIELDS(mamba::MambaParams, state, input, conv, bias, dt, a, d, y, n_group, n_head, dim_k, dim_v, taps, stride)
    FIELDS(mamba::GroupNormParams, x, weight, seq, y, image, n, eps)
    FIELDS(probe::ProbeParams, from, to, n, pad)
    FIELDS(matrix_product::NormProductParams, product, norm)
    FIELDS(quantize_act::QuantizeActParams, x, image, k, columns, step, pad)
    FIELDS(StateParams, pages, table, pos, seq, slots, len, rows, sequences, keeps, pad)
    FIELDS(recurrent::DeltaNetParams, state, input, z, alpha, beta, conv, dt, a, norm, y, image, n_head_k, n_head_v, dim_k,
           dim_v, taps, grouped, eps, pad)
    FIELDS(recurrent::ShortConvParams, state, input, conv, y, image, channels, taps)
    FIELDS(recurrent::JoinHiddenParams, state, embedding, hidden, before, y, n, pad)
    FIELDS(repack::RepackParams, from, to, rows, k)
    FIELDS(RopeKvParams, q, q_out, k, v, q_norm, k_norm, frequency, pos, seq, cache, n_head, n_head_kv,
           head_dim, n_rot, halves, eps, magnitude, q_step, v_norm, share)
    FIELDS(rope_kv::LatentKvParams, rope, k_out, rank, pad)
    FIELDS(sample::Sampling, seed, position, temperature, top_k, top_p, ln_min_p, repeat, frequency, presence, window)
    FIELDS(sample::Bias, token, value)
    FIELDS(sample::SampledToken, sequence, token, status, value)
    FIELDS(sample::SampleParams, logits, token, pos, seq, drawn, sampling, work, counts, history, bias, totals, candidates,
           bin_mass, bin_count, ring, vocab, history_len, bias_len, ring_len)
    FIELDS(sample::RestartParams, sampling, to, work, counts, history, vocab, recent, biases, pad)
    CONSTANT(sizeof(sample::Work))
    FIELDS(sample_mask::MaskParams, logits, mask, row, vocab, masks)

    CONSTANT(PAGE)
    CONSTANT(CACHE_BLOCK)
    CONSTANT(CACHE_F16)
    CONSTANT(CACHE_Q8_0)
    CONSTANT(SILU)
    CONSTANT(GELU_TANH)
    CONSTANT(CLAMPED_SWIGLU)
    CONSTANT(RELU_SQUARED)
    CONSTANT(GELU)
    CONSTANT(MAX_PARTS)
#define VARIANT(name, sm, V)                                \
    printf("shared %s %s %d\n", #name, sm, V::BYTES);       \
    printf("queries %s %s %d\n", #name, sm, V::ROWS);       \
    printf("step %s %s %d\n", #name, sm, V::STEP);          \
    printf("threads %s %s %d\n", #name, sm, V::THREADS);
#define OF_PROMPTS(name, DIM, ...)                                               \
    {                                                                            \
        using V75 = attention::Variant<DIM, __VA_ARGS__, (DIM > 256 ? 1 : 2)>;   \
        using V80 = attention::Variant<DIM, __VA_ARGS__>;                        \
        VARIANT(name, "sm_75", V75) VARIANT(name, "sm_80", V80)                  \
    }
#define OF_ROWS(name, DIM, Q8)                                                   \
    {                                                                            \
        using V75 = attention_rows::Rows<DIM, Q8, (DIM > 64 ? 1 : 2)>;           \
        using V80 = attention_rows::Rows<DIM, Q8>;                               \
        VARIANT(name, "sm_75", V75) VARIANT(name, "sm_80", V80)                  \
    }
    ATTENTIONS(OF_PROMPTS)
    ATTENTION_ROWS(OF_ROWS)
    CONSTANT(gemv::ROWS)
    CONSTANT(32 * gemv::WARPS)
    CONSTANT(glu::OUTPUTS)
    CONSTANT(32 * glu::WARPS)
    CONSTANT(16 * gemm::WIDE_WARPS)
    CONSTANT(gemm::WIDE_COLUMNS)
    CONSTANT(32 * gemm::WIDE_WARPS)
    CONSTANT(gemm::FEW_COLUMNS)
    CONSTANT(32 * gemm::FEW_WARPS)
    CONSTANT(gemm::CHUNK_BLOCKS)
#define TILE(name)                       \
    CONSTANT(gemm::name::ROWS)           \
    CONSTANT(gemm::name::COLUMNS)        \
    CONSTANT(gemm::name::THREADS)        \
    CONSTANT(gemm::name::SHARED_BYTES)
    TILE(LargeTile)
    TILE(MediumTile)
    TILE(SmallTile)
    CONSTANT(32 * glu_act::WARPS)
    CONSTANT(mamba::NORM_THREADS)
    CONSTANT(NORM_CHUNK)
    CONSTANT(norm::NORM_THREADS)
    CONSTANT(norm::NORM_MOST_CHUNKS)
    CONSTANT(matrix_product::MOST_TILES)
    CONSTANT(matrix_product::MOST_WARPS)
#define NORMED(number, name, F)                                                       \
    printf("norm warps %s %d\n", #name, matrix_product::NORM_WARPS<F>);                \
    printf("norm blocks %s %d\n", #name, matrix_product::NORM_BLOCKS<F>);
    QUANTIZED_FORMATS(NORMED)
    RARE_FORMATS(NORMED)
    CONSTANT(experts::MAX_EXPERTS)
    CONSTANT(experts::MAX_CHOICES)
    CONSTANT(experts::SOFTMAX)
    CONSTANT(experts::SIGMOID)
    CONSTANT(experts::SOFTMAX_OF_CHOSEN)
    CONSTANT(experts::ROUTE_WARPS)
    CONSTANT(experts::ROUTE_MOST_CHUNKS)
    CONSTANT(experts::GROUP_THREADS)
    CONSTANT(experts::JOIN_THREADS)
    CONSTANT(MAX_TAPS)
    CONSTANT(MAX_STATE)
    CONSTANT(HEAD_THREADS)
    CONSTANT(recurrent::CONV_THREADS)
    CONSTANT(repack::WARPS)
#define RECORDS(number, name, F) \
    CONSTANT(F::COLUMNS)         \
    CONSTANT(F::RECORD)
    QUANTIZED_FORMATS(RECORDS)
    RARE_FORMATS(RECORDS)
    PACKED_FORMATS(RECORDS)
#define GRID(number, name, F) CONSTANT(F::GRID)
    RARE_FORMATS(GRID)
    CONSTANT(rope_kv::ROPE_WARPS)
    CONSTANT(MAX_HEAD)
    CONSTANT(MAX_RANK)
    CONSTANT(MAX_TURNING)
    CONSTANT(sample::CHUNK)
    CONSTANT(sample::SAMPLE_THREADS)
    CONSTANT(sample::BINS)
    CONSTANT(sample::LISTED)
    CONSTANT(sample::DRAWN)
    CONSTANT(sample::NOT_FINITE)
    CONSTANT(sample::NO_TOKEN)
    CONSTANT(sample::NOT_REACHED)
    CONSTANT(32 * sample_mask::MASK_WARPS)
    CONSTANT(sample_mask::MASK_WARPS * sample_mask::MASK_WORDS)
    CONSTANT(fragments::CP_ASYNC)
}
