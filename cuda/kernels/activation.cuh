// What gates a feed-forward layer.
#pragma once
#include "matmul.cuh"

// activation(gate) · up.
DEVICE float gated(float gate, float up, int activation) {
    if (activation == GELU_TANH) {
        return 0.5f * gate * (1.0f + tanhf(0.7978845608028654f * (gate + 0.044715f * gate * gate * gate))) * up;
    }
    float steepness = 1.0f;
    if (activation == CLAMPED_SWIGLU) {
        // gpt-oss: both are kept within 7; comparisons leave a NaN one.
        gate = gate > 7.0f ? 7.0f : gate;
        up = (up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up) + 1.0f;
        steepness = 1.702f;
    }
    return gate / (1.0f + expf(-product(steepness, gate))) * up;
}
