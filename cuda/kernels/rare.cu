// Products of the formats that few files have, with few columns (product.cuh) and with many (gemm_int8.cuh).
#include "ptx.cuh"
#include "product.cuh"
#include "gemm_int8.cuh"

RARE_FORMATS(PRODUCT)
RARE_FORMATS(GEMM_INT8)
