// The multi-column matmuls: for each format `gemm`, for dense ones `gemm_few` besides (see gemm.cuh).
//
//   gemm      grid Σ ceil(rows / 64) × ceil(columns / 64), 128 threads; shared memory: 25 KB, 27 KB with two scales per
//             block of 32, 41 KB for dense weights
//   gemm_few  grid Σ ceil(rows / 16) × ceil(columns / 16), 256 threads; 16 KB of shared memory
//
// Both move the weights once per column tile and the columns once per row tile (1.375 bytes per element, 4 where weights
// are dense), as far as the L2 cache does not hold them, and 4 bytes per result.
#include "ptx.cuh"
#include "gemm_float.cuh"
#include "gemm_int8.cuh"

// Blocks on an SM: what is held of some records leaves registers for two.
template <class F>
constexpr int WIDE_BLOCKS = F::INTEGER && (F::SCALES == 2 || !F::MIN) ? 2 : 3;

#define GEMM_INT8(number, name, F) \
    extern "C" __global__ void __launch_bounds__(128, WIDE_BLOCKS<F>) gemm_##name(const MatmulParams p) { gemm_wide_int8<F>(p); }
QUANTIZED_FORMATS(GEMM_INT8)
#undef GEMM_INT8

#define GEMM(number, name, F)                                                                                                           \
    extern "C" __global__ void __launch_bounds__(128, 3) gemm_##name(const MatmulParams p) { gemm_wide<Float<F, F::SIGNIFICAND>>(p); } \
    extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_##name(const MatmulParams p) { gemm_few<Float<F, F::SIGNIFICAND>>(p); }
DENSE_FORMATS(GEMM)
#undef GEMM
