// The multi-column matmuls, one pair of kernels per format.
#include "ptx.cuh"
#include "gemm_float.cuh"
#include "gemm_int8.cuh"

#define GEMM(name, ...)                                                                                          \
    extern "C" __global__ void __launch_bounds__(32 * WIDE_WARPS, 3) gemm_##name(const MatmulParams p) {         \
        gemm_wide<__VA_ARGS__>(p);                                                                               \
    }                                                                                                            \
    extern "C" __global__ void __launch_bounds__(32 * FEW_WARPS, 2) gemm_few_##name(const MatmulParams p) {         \
        gemm_few<__VA_ARGS__>(p);                                                                                \
    }

GEMM(f32, Float<F32, 24>)
GEMM(f16, Float<F16, 11>)
GEMM(bf16, Float<BF16, 8>)
GEMM(q4_0, Int8<Q4_0>)
GEMM(q4_1, Int8<Q4_1>)
GEMM(q5_0, Int8<Q5_0>)
GEMM(q5_1, Int8<Q5_1>)
GEMM(q8_0, Int8<Q8_0>)
GEMM(q2_k, Int8<Q2_K>)
GEMM(q3_k, Int8<Q3_K>)
GEMM(q4_k, Int8<Q4_K>)
GEMM(q5_k, Int8<Q5_K>)
GEMM(q6_k, Int8<Q6_K>)
GEMM(iq4_nl, Int8<IQ4_NL>)
GEMM(iq4_xs, Int8<IQ4_XS>)
