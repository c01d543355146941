// What gates a feed-forward layer.
#pragma once
#include "matmul.cuh"

DEVICE float activate(float x, int activation) {
    if (activation == SILU) return x / (1.0f + expf(-x));
    return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}
