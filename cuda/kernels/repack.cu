// Rows of weights as they are in a file, into the tile records that the matmuls read.
//
// Grid: ceil(records / 4) blocks of 128 threads, a warp per record; no shared memory. Moves every byte once in and once out.
#include "ptx.cuh"
#include "formats.cuh"

struct RepackParams {
    const unsigned char* from;  // [rows] rows of k weights as in the file
    unsigned char* to;          // [ceil(rows / 16)][ceil(k / COLUMNS)] records
    int rows;
    int k;
};

constexpr int WARPS = 4;

template <class F>
DEVICE void repack(const RepackParams& p) {
    const int records = (p.k + F::COLUMNS - 1) / F::COLUMNS, at = blockIdx.x * WARPS + warp();
    const int tile = at / records, block = at % records * (F::COLUMNS / 32);
    if (16 * tile >= p.rows) return;
    FileRows from = {{nullptr, nullptr}, block, p.k / 32};
    for (int i = 0; i < 2; i++) {
        const int row = 16 * tile + lane() / 4 + 8 * i;
        if (row < p.rows) from.row[i] = p.from + (size_t)row * (p.k / F::BLOCK) * F::BYTES;
    }
    F::pack(p.to + (size_t)at * F::RECORD, from);
}

#define REPACK(number, name, F) \
    extern "C" __global__ void __launch_bounds__(32 * WARPS) repack_##name(const RepackParams p) { repack<F>(p); }
QUANTIZED_FORMATS(REPACK)
RARE_FORMATS(REPACK)
PACKED_FORMATS(REPACK)
#undef REPACK
