// Parameters of the matmul kernels, and which part of the grid works for which segment.
//
// y[column][row] = Σ_k w[row][k]·x[column][k] (+ bias[row]), up to three weight matrices over the same x.
#pragma once
#include "formats.cuh"
#include "image.cuh"

struct Segment {
    const unsigned char* w;  // [rows] rows of k weights, or their tile records
    const float* bias;       // [rows] or null
    float* y;                // [columns][y_stride]
    int rows;
    int y_stride;
    int format;  // ggml type number
    int expert_rows;  // of experts: rows from one's weights (and bias) to the next one's, a multiple of 16; else 0
    const float* scale;  // of formats that are SCALED: [experts], or one, what weights are multiplied by; or null
};

// Columns of a product that take the same expert: places in lists of columns, in one block's reach.
struct ExpertTile {
    int expert, first, columns, pad;
};

// Activations in two terms of 16 bits, as dense weights of 16 bits are multiplied with them on SM 8.0+ (gemm_half.cuh).
struct ActivationTerms {
    uint4* blocks;  // [column / 16][k / 32][128]: TermBlocks
    float* down;    // f16: [column][⌈k / 256⌉], what the terms of a chunk are multiplied with
};

struct MatmulParams {
    Segment segment[3];
    // Of formats that have one: formats/grid.cuh, formats/iq1.cuh. With 8 bytes less in front of the others, loops of sm_120 have up to
    // five instructions more.
    const unsigned short* weight_grid;
    int segments;
    int k;
    int columns;
    float softcap;   // y = softcap·tanh(y/softcap) where it is > 0
    QuantizedActivations image;     // what quantized weights multiply
    const float* x;  // [columns][k]: what dense weights multiply
    const int* seq;  // [columns]: columns with seq < 0 are not written; null: all are
    // Of the products of quantized weights with few columns, the experts of dense ones too:
    int tile_shift;  // log2 of the row tiles of a block
    int gated;       // segment 0 is a gate, 1 what is gated: y of segment 0 becomes activation(gate)·up, or is null
    int activation;
    int expert_tiles;  // how many there are
    // ⌈2^16 / n⌉ for the warps of a block, and for the records of 128 and of 256 columns in a row: what small numbers are multiplied
    // by instead of being divided.
    int warp_factor, row_factor[2];
    int ahead;  // most bytes of a matrix that a block prefetches while it waits for its columns
    QuantizedActivations out;  // gated: the same as an image of k = rows (a multiple of 32), or null
    const ExpertTile* experts;  // [gridDim.y]: columns of each tile take an expert; null: all columns take one matrix
    const int* x_columns;  // where a column of such a list lies in `image` and `x`
    const int* y_columns;  // and in `y` and `out`
    ActivationTerms terms;  // room for those of x, where there are many columns
    int x_step;  // gemv and norm_product_mixed: elements from column to column of x, or of what is normed
    int pad;
};

enum Activation { SILU = 0, GELU_TANH = 1, CLAMPED_SWIGLU = 2, RELU_SQUARED = 3, GELU = 4 };

struct GluParams {
    Segment gate, up;  // the same number of rows; their y is not used
    int k;
    int columns;
    int activation;
    int y_stride;
    QuantizedActivations image;
    const float* x;
    const int* seq;
    float* y;   // [columns][y_stride]: activation(gate)·up, or null
    QuantizedActivations out;  // the same as an image of k = rows (a multiple of 32), or null
};

// The rows that a block works for: a segment, and which of that segment's blocks it is.
struct SegmentTile {
    int segment, block;
};

// Segment i has ceil(rows / 2^shift) blocks, one segment after the other.
DEVICE SegmentTile segment_tile(const MatmulParams& p, int shift) {
    int block = blockIdx.x, i = 0;
    for (; i + 1 < p.segments; i++) {
        int blocks = (p.segment[i].rows + (1 << shift) - 1) >> shift;
        if (block < blocks) break;
        block -= blocks;
    }
    return {i, block};
}

// The columns of a block and the expert that they take.
struct ColumnTile {
    int first, end;  // from first on, below end
    int expert;
    int one;           // where the only column of a block lies in x
    const int *x, *y;  // where they lie; null: there
    __device__ __forceinline__ int x_column(int i) const { return x ? x[i] : i; }
    __device__ __forceinline__ int y_column(int i) const { return y ? y[i] : i; }
    // The first row of a segment's matrix.
    __device__ __forceinline__ int row(const Segment& segment) const { return expert * segment.expert_rows; }
};

// All columns, of one matrix.
DEVICE ColumnTile all_columns(int columns) { return {0, columns, 0, 0, nullptr, nullptr}; }

// For block y, `width` columns wide. Of one row each choice is a tile, so nothing is looked up: addresses stay uniform.
DEVICE ColumnTile column_tile(const MatmulParams& p, int width) {
    const int y = blockIdx.y, one = p.x_columns == p.y_columns ? y : 0;
    if (!p.experts) return {y * width, p.columns, 0, one, nullptr, nullptr};
    const ExpertTile tile = p.experts[y];
    if (width == 1) return {y, y + tile.columns, tile.expert, one, nullptr, nullptr};
    return {tile.first, tile.first + tile.columns, tile.expert, one, p.x_columns, p.y_columns};
}

DEVICE int live(const int* seq, int column) { return !seq || seq[column] >= 0; }

// y with the epilogue of the head.
DEVICE float soft_cap(float y, float cap) { return cap > 0.0f ? cap * tanhf(y / cap) : y; }
