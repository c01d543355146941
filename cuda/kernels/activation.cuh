// What gates a feed-forward layer.
#pragma once
#include "matmul.cuh"

// NaN stays.
DEVICE float at_most(float x, float most) { return x > most ? most : x; }

// activation(gate) · up.
DEVICE float gated(float gate, float up, int activation) {
    if (activation == GELU_TANH) {
        return 0.5f * gate * (1.0f + tanhf(0.7978845608028654f * (gate + 0.044715f * gate * gate * gate))) * up;
    }
    float steepness = 1.0f;
    if (activation == CLAMPED_SWIGLU) {
        // As gpt-oss has it.
        gate = at_most(gate, 7.0f);
        up = -at_most(-at_most(up, 7.0f), 7.0f) + 1.0f;
        steepness = 1.702f;
    }
    return gate / (1.0f + expf(-product(steepness, gate))) * up;
}
