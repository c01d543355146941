// The multi-column matmuls, two kernels per format (see gemm.cuh).
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

// The family of a format: int8 products where weights are quantized, split floats where they are dense.
template <class F, int DENSE = F::DENSE>
struct FamilyOf {
    using type = Int8<F>;
};
template <class F>
struct FamilyOf<F, 1> {
    using type = Float<F, F::SIGNIFICAND>;
};

#define GEMM(number, name, F) \
    extern "C" __global__ void __launch_bounds__(128, 3) gemm_##name(const MatmulParams p) { gemm_wide<FamilyOf<F>::type>(p); }
FORMATS(GEMM)
#undef GEMM

#define GEMM_FEW(number, name, F) \
    extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_##name(const MatmulParams p) { gemm_few<FamilyOf<F>::type>(p); }
FORMATS(GEMM_FEW)
#undef GEMM_FEW
