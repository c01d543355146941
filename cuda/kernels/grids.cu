// Products of the formats whose weights are entries of a grid, with few columns (product.cuh) and with many (gemm_int8.cuh).
#include "ptx.cuh"
#include "product.cuh"
#include "gemm_int8.cuh"

GRID_FORMATS(PRODUCT)
GRID_FORMATS(GEMM_INT8)
