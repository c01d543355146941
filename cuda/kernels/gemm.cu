// The multi-column matmuls: for each format `gemm`, for dense ones `gemm_few` besides (see gemm.cuh); on SM 8.0+ dense weights of
// 16 bits have `gemm_split` and tiles in place of `gemm` (see gemm_half.cuh).
//
//   gemm         grid Σ ceil(rows / 64) × ceil(columns / 64), 128 threads; shared memory: 20 KB, 24 KB with minimums, up to 4 KB
//                more with a grid, 41 KB for dense weights; those of formats that few files have are in rare.cu
//   gemm_few     grid Σ ceil(rows / 16) × ceil(columns / 16), 256 threads; 16 KB of shared memory
//   gemm_split   grid ceil(k / 256) × ceil(columns / 16), 256 threads; moves 4 bytes in and 4 out per element
//   gemm_large   grid Σ ceil(rows / 128) × ceil(columns / 128), 256 threads; 96 KB of dynamic shared memory
//   gemm_medium  grid Σ ceil(rows / 128) × ceil(columns / 64), 128 threads; 64 KB
//   gemm_small   grid Σ ceil(rows / 64) × ceil(columns / 64), 128 threads; 48 KB
//
// All but gemm_split move the weights once per column tile and the columns once per row tile (1.375 bytes per element, 4 where
// weights are dense), as far as the L2 cache does not hold them, and 4 bytes per result.
#include "ptx.cuh"
#include "gemm_float.cuh"
#include "gemm_half.cuh"
#include "gemm_int8.cuh"

QUANTIZED_FORMATS(GEMM_INT8)

#define GEMM(name, F)                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(128, 3) gemm_##name(const MatmulParams p) { gemm_wide<Float<F, F::SIGNIFICAND>>(p); } \
    extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_##name(const MatmulParams p) { gemm_few<Float<F, F::SIGNIFICAND>>(p); }
GEMM(f32, F32)
#if HAS_BF16_MMA
#define GEMM_TILE(prefix, name, F, T, blocks) \
    extern "C" __global__ void __launch_bounds__(T::THREADS, blocks) prefix##name(const MatmulParams p) { gemm_tiles<F, T>(p); }
#define GEMM_HALF(name, F)                                                                                                  \
    GEMM_TILE(gemm_large_, name, F, LargeTile, 1)                                                                           \
    GEMM_TILE(gemm_medium_, name, F, MediumTile, 2)                                                                         \
    GEMM_TILE(gemm_small_, name, F, SmallTile, 3)                                                                           \
    extern "C" __global__ void __launch_bounds__(32 * CHUNK_BLOCKS) gemm_split_##name(const MatmulParams p) { split<F>(p); } \
    extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_##name(const MatmulParams p) { gemm_few<Half<F>>(p); }
GEMM_HALF(f16, F16)
GEMM_HALF(bf16, BF16)
#undef GEMM_HALF
#undef GEMM_TILE
#else
GEMM(f16, F16)
GEMM(bf16, BF16)
#endif
#undef GEMM
