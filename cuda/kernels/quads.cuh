// Four elements in a row, which a lane has of 128 that a warp takes.
#pragma once
#include "ptx.cuh"

struct Quad {
    float v[4];
};

// From an address that is a multiple of 16.
DEVICE Quad load_quad(const float* p) {
    const float4 v = *(const float4*)p;
    return {{v.x, v.y, v.z, v.w}};
}
DEVICE void store_quad(float* p, const Quad& q) { *(float4*)p = {q.v[0], q.v[1], q.v[2], q.v[3]}; }

// Elements 4·lane to 4·lane + 3 of every 128 of `len`, a multiple of 4; zeros past the end.
template <int N>
DEVICE void load_quads(Quad (&x)[N], const float* from, int len) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        const int i = 128 * n + 4 * lane();
        x[n] = i < len ? load_quad(from + i) : Quad{{0.0f, 0.0f, 0.0f, 0.0f}};
    }
}
template <int N>
DEVICE void store_quads(float* to, const Quad (&x)[N], int len) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        const int i = 128 * n + 4 * lane();
        if (i < len) store_quad(to + i, x[n]);
    }
}

// Quads of a lane that a vector of WIDTH elements needs.
template <int WIDTH>
constexpr int QUADS_OF = (WIDTH + 127) / 128;
