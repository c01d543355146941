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
GEMM(q4_k, Int8<Q4_K>)
GEMM(q8_0, Int8<Q8_0>)
