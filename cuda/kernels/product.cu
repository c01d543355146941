// The products of product.cuh for each quantized format that many files have, and the one of segments in different formats.
#include "ptx.cuh"
#include "product.cuh"

QUANTIZED_FORMATS(PRODUCT)

// Segments in different formats, experts, or a column that is not normed: the switches are uniform in a block, and what they have in common is there once.
extern "C" __global__ void __launch_bounds__(32 * MOST_NORM_WARPS, 2) norm_product_mixed(const NormProductParams p) {
    SHARED_SUMS(1);
    DYN_SHARED(signed char, memory);
    const Shared<1> shared = {sums, totals};
    const Tiles tiles = tiles_of(p.product);
    const int format = p.product.segment[tiles.segment].format;
    depend_launch();
    ColumnTile columns = one_column();
    NormParams norm = p.norm;
    if (p.product.experts) {
        depend_wait();
        const int column = blockIdx.y;
        const ExpertTile tile = p.product.experts[column];
        if (!tile.columns) return;
        columns = {column, column + 1, tile.expert, 0, nullptr, nullptr};
        if (p.product.x_columns == p.product.y_columns) norm.x += (size_t)column * p.product.x_step;
    }
    const int seq = p.product.seq ? *p.product.seq : 0;
    First<2> first = {uniform_warp()};
    ask_weights<1, NORM_RMS_OR_NONE>(first, p.norm);
    int record = 0, in_row = 0;
    switch (format) {
#define CASE(number, name, F) \
    case number: record = F::RECORD, in_row = records<F>(p.product.k); break;
        QUANTIZED_FORMATS(CASE)
#undef CASE
    }
    prefetch_records(p.product, tiles, columns, record, in_row);
    depend_wait();
    if (seq < 0) return;
    const QuantizedActivations image = norm_column<NORM_RMS_OR_NONE>(norm, first, shared, memory);
    switch (format) {
#define CASE(number, name, F)                                                                                   \
    case number: {                                                                                              \
        const Records<F> at(p.product, tiles, columns);                                                      \
        multiply<F, 1, 1>(p.product, tiles, columns, shared, image, at, at.load());                          \
        break;                                                                                                  \
    }
        QUANTIZED_FORMATS(CASE)
#undef CASE
    }
}
