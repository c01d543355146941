// THE table of weight formats on the device: one struct per ggml type, one file per struct.
//
// To add a format: write formats/x.cuh, include it here, add its row to a list below, and the same row in ops/formats.rs (a test there
// compares). The rows make the kernels of the matmuls and of the repacking, and the cases of the embedding; these read weights
// through the structs alone, so the layout of a weight in device memory is known to its own file only.
//
// A quantized format reads blocks of 32 weights from a row of the file, and has a layout of its own on the device: tile records
// of 16 rows × COLUMNS weights with all that belongs to them. The records of a row tile follow each other along k, row tiles
// along the rows, so a warp reads one stream. What is past the last row, or past k, has scales of zero.
// Four lanes t = 0..3 share a block; lane t has the octet of elements 4t..4t+3 and 16+4t..16+4t+3.
//
//   struct X : Quantized {
//     BLOCK, BYTES     weights and bytes of a block in the file; rows are whole blocks
//     COLUMNS, RECORD  columns (128 or 256) and bytes (a multiple of 32) of a record
//     SCALES           scales per 32 weights: 1, or 2 (one per half of 16)
//     MIN              1 where there are minimums
//     INTEGER          1 where scales and minimums are integers times a float of the row: weight = (d·scale)·q − dmin·minimum;
//                      else weight = scale·q + minimum
//     SMALL            of integers: 1 where Σ q·a times its scale stays within ± 2^22 for every block
//     POWER            q is kept as q·2^POWER, within a signed byte; below 0 the scale is, times 2^POWER
//     SCALED           1 where files may have a scale for a whole matrix beside it
//     GRID             words of the grid whose entries weights are (formats/grid.cuh, formats/iq1.cuh), or 0
//     lend(held, lane, grid)       of a format with a grid: where it lies
//     Held, load(record + 16·lane, lane)   what a lane holds of a record
//     quad(held, c, i, j, half)    four q of chunk c of 128, row g + 8i, block j, the half of 16
//     scale, minimum               (held, i, j), of two scales (held, i, j, half), of integers (held, c, i, j, half); d, dmin(held, i)
//     codes(row, block32, t)       an octet as the file has it
//     pack(record, rows)           a warp makes a record of rows of the file
//   };
//
// A dense format reads four elements at once, aligned (i a multiple of 4, rows a multiple of 4 elements
// apart), or one anywhere:
//
//   struct X { BLOCK = 1, BYTES; DENSE = 1; SIGNIFICAND; float4 four(row, i); float one(row, i); };
//
// with SIGNIFICAND the bits of a number's significand, the hidden one included.
//
// Tensors start at a multiple of 16 bytes, so a row is as aligned as its block is long.
#pragma once
#include "formats/bits.cuh"
#include "formats/dense.cuh"
#include "formats/iq1_m.cuh"
#include "formats/iq1_s.cuh"
#include "formats/iq2_s.cuh"
#include "formats/iq2_xs.cuh"
#include "formats/iq2_xxs.cuh"
#include "formats/iq3_s.cuh"
#include "formats/iq3_xxs.cuh"
#include "formats/iq4_nl.cuh"
#include "formats/iq4_xs.cuh"
#include "formats/mxfp4.cuh"
#include "formats/nvfp4.cuh"
#include "formats/q1_0.cuh"
#include "formats/q2_0.cuh"
#include "formats/q2_k.cuh"
#include "formats/q3_k.cuh"
#include "formats/q4_0.cuh"
#include "formats/q4_1.cuh"
#include "formats/q4_k.cuh"
#include "formats/q5_0.cuh"
#include "formats/q5_1.cuh"
#include "formats/q5_k.cuh"
#include "formats/q6_k.cuh"
#include "formats/q8_0.cuh"
#include "formats/tq1_0.cuh"
#include "formats/tq2_0.cuh"

// X(ggml type number, name in kernels, struct)
#define DENSE_FORMATS(X) \
    X(0, f32, F32) \
    X(1, f16, F16) \
    X(30, bf16, BF16)
#define QUANTIZED_FORMATS(X) \
    X(2, q4_0, Q4_0) \
    X(3, q4_1, Q4_1) \
    X(6, q5_0, Q5_0) \
    X(7, q5_1, Q5_1) \
    X(8, q8_0, Q8_0) \
    X(10, q2_k, Q2_K) \
    X(11, q3_k, Q3_K) \
    X(12, q4_k, Q4_K) \
    X(13, q5_k, Q5_K) \
    X(14, q6_k, Q6_K) \
    X(20, iq4_nl, IQ4_NL) \
    X(23, iq4_xs, IQ4_XS) \
    X(39, mxfp4, MXFP4)
// Of few files: segments of one product are in one of them, and kernels have a module of their own.
#define RARE_FORMATS(X) \
    X(16, iq2_xxs, IQ2_XXS) \
    X(17, iq2_xs, IQ2_XS) \
    X(22, iq2_s, IQ2_S) \
    X(18, iq3_xxs, IQ3_XXS) \
    X(21, iq3_s, IQ3_S) \
    X(29, iq1_m, IQ1_M) \
    X(40, nvfp4, NVFP4) \
    X(41, q1_0, Q1_0) \
    X(42, q2_0, Q2_0)
// Whose records are those of another one: IQ1_M, Q2_0.
#define PACKED_FORMATS(X) \
    X(19, iq1_s, IQ1_S) \
    X(34, tq1_0, TQ1_0) \
    X(35, tq2_0, TQ2_0)
#define FORMATS(X) \
    DENSE_FORMATS(X) \
    QUANTIZED_FORMATS(X) \
    RARE_FORMATS(X)
