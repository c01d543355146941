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
    int pad;
};

struct MatmulParams {
    Segment segment[3];
    int segments;
    int k;
    int columns;
    float softcap;   // y = softcap·tanh(y/softcap) where it is > 0
    QuantizedActivations image;     // what quantized weights multiply
    const float* x;  // [columns][k]: what dense weights multiply
    const int* seq;  // [columns]: columns with seq < 0 are not written; null: all are
    // Of the products of quantized weights with few columns:
    int tiles;       // row tiles of a block
    int gated;       // segment 0 is a gate, 1 what is gated: y of segment 0 becomes activation(gate)·up, or is null
    int activation;
    int pad;
    QuantizedActivations out;  // gated: the same as an image of k = rows (a multiple of 32), or null
};

enum Activation { SILU = 0, GELU_TANH = 1 };

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

// Segment i has ceil(rows/rows_per_block) blocks, one segment after the other.
DEVICE SegmentTile segment_tile(const MatmulParams& p, int rows_per_block) {
    int block = blockIdx.x, i = 0;
    for (; i + 1 < p.segments; i++) {
        int blocks = (p.segment[i].rows + rows_per_block - 1) / rows_per_block;
        if (block < blocks) break;
        block -= blocks;
    }
    return {i, block};
}

DEVICE int live(const int* seq, int column) { return !seq || seq[column] >= 0; }

// y with the epilogue of the head.
DEVICE float soft_cap(float y, float cap) { return cap > 0.0f ? cap * tanhf(y / cap) : y; }
