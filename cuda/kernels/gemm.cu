// The multi-column matmuls, two kernels per format (see gemm.cuh). Grid: x = row tiles of 64 or 16 over all segments,
// y = column tiles of 64 or 16.
#include "ptx.cuh"
#include "gemm_float.cuh"
#include "gemm_int8.cuh"

extern "C" __global__ void __launch_bounds__(128, 3) gemm_f32(const MatmulParams p) { gemm_wide<Float<F32, 24>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_f16(const MatmulParams p) { gemm_wide<Float<F16, 11>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_bf16(const MatmulParams p) { gemm_wide<Float<BF16, 8>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q4_0(const MatmulParams p) { gemm_wide<Int8<Q4_0>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q4_1(const MatmulParams p) { gemm_wide<Int8<Q4_1>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q5_0(const MatmulParams p) { gemm_wide<Int8<Q5_0>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q5_1(const MatmulParams p) { gemm_wide<Int8<Q5_1>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q8_0(const MatmulParams p) { gemm_wide<Int8<Q8_0>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q2_k(const MatmulParams p) { gemm_wide<Int8<Q2_K>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q3_k(const MatmulParams p) { gemm_wide<Int8<Q3_K>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q4_k(const MatmulParams p) { gemm_wide<Int8<Q4_K>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q5_k(const MatmulParams p) { gemm_wide<Int8<Q5_K>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q6_k(const MatmulParams p) { gemm_wide<Int8<Q6_K>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_iq4_nl(const MatmulParams p) { gemm_wide<Int8<IQ4_NL>>(p); }
extern "C" __global__ void __launch_bounds__(128, 3) gemm_iq4_xs(const MatmulParams p) { gemm_wide<Int8<IQ4_XS>>(p); }

extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_f32(const MatmulParams p) { gemm_few<Float<F32, 24>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_f16(const MatmulParams p) { gemm_few<Float<F16, 11>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_bf16(const MatmulParams p) { gemm_few<Float<BF16, 8>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q4_0(const MatmulParams p) { gemm_few<Int8<Q4_0>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q4_1(const MatmulParams p) { gemm_few<Int8<Q4_1>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q5_0(const MatmulParams p) { gemm_few<Int8<Q5_0>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q5_1(const MatmulParams p) { gemm_few<Int8<Q5_1>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q8_0(const MatmulParams p) { gemm_few<Int8<Q8_0>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q2_k(const MatmulParams p) { gemm_few<Int8<Q2_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q3_k(const MatmulParams p) { gemm_few<Int8<Q3_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q4_k(const MatmulParams p) { gemm_few<Int8<Q4_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q5_k(const MatmulParams p) { gemm_few<Int8<Q5_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_q6_k(const MatmulParams p) { gemm_few<Int8<Q6_K>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_iq4_nl(const MatmulParams p) { gemm_few<Int8<IQ4_NL>>(p); }
extern "C" __global__ void __launch_bounds__(256, 2) gemm_few_iq4_xs(const MatmulParams p) { gemm_few<Int8<IQ4_XS>>(p); }
