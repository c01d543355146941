// Correct kernels: the checks must stay silent on all of them, in every order.
#include "ptx.cuh"

struct VectorParams { const float* in; float* out; int n; };

// out[i] = Σ in over the block's part, through shared memory and a warp reduction.
extern "C" __global__ void __launch_bounds__(128) control_block_sum(const VectorParams p) {
    SHARED(float, partial, [4]);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float s = warp_sum(i < p.n ? p.in[i] : 0.0f);
    if (lane() == 0) partial[warp()] = s;
    block_sync();
    if (threadIdx.x == 0) p.out[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
}

// Reverses each part of 128 in place, through dynamic shared memory.
extern "C" __global__ void __launch_bounds__(128) control_reverse(const VectorParams p) {
    DYN_SHARED(float, part);
    const int base = blockIdx.x * 128;
    part[threadIdx.x] = p.in[base + threadIdx.x];
    block_sync();
    p.out[base + threadIdx.x] = part[127 - threadIdx.x];
}

// out[i] = in[i] + 1
extern "C" __global__ void __launch_bounds__(128) control_increment(const VectorParams p) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < p.n) p.out[i] = p.in[i] + 1;
}

struct TicketParams { const float* in; float* partial; float* out; unsigned* ticket; unsigned long long* best; int n; };

// The last block adds what all blocks found; a maximum by atomics.
extern "C" __global__ void __launch_bounds__(64) control_last_block(const TicketParams p) {
    SHARED(float, sums, [2]);
    const int i = blockIdx.x * 64 + threadIdx.x;
    const float v = i < p.n ? p.in[i] : 0.0f;
    const float s = warp_sum(v);
    if (lane() == 0) sums[warp()] = s;
    block_sync();
    if (threadIdx.x == 0) p.partial[blockIdx.x] = sums[0] + sums[1];
    if (i < p.n) atomic_max(p.best, static_cast<unsigned long long>(i));
    if (!last_block(p.ticket, gridDim.x)) return;
    if (threadIdx.x == 0) {
        float all = 0;
        for (int b = 0; b < static_cast<int>(gridDim.x); b++) all += p.partial[b];
        *p.out = all;
    }
}

struct GemmParams { const unsigned short* a; const unsigned short* b; float* c; int k; };

// c[16×8] = a[16×k] · b[8×k]ᵀ in f16, k a multiple of 16: asynchronous copies, two stages, ldmatrix, tensor cores. One warp.
extern "C" __global__ void __launch_bounds__(32) control_gemm(const GemmParams p) {
    SHARED(unsigned short, a_tile, [2][16][16]);
    SHARED(unsigned short, b_tile, [2][8][16]);
    float c[4] = {};
    const int row = lane() / 2, half = lane() % 2 * 8, steps = p.k / 16;
    cp_async16(&a_tile[0][row][half], p.a + row * p.k + half, 1);
    if (lane() < 16) cp_async16(&b_tile[0][row][half], p.b + row * p.k + half, 1);
    cp_async_commit();
    for (int s = 0; s < steps; s++) {
        const int at = (s + 1) * 16 + half, next = (s + 1) % 2;
        if (s + 1 < steps) {
            cp_async16(&a_tile[next][row][half], p.a + row * p.k + at, 1);
            if (lane() < 16) cp_async16(&b_tile[next][row][half], p.b + row * p.k + at, 1);
        }
        cp_async_commit();
        cp_async_wait<1>();
        block_sync();
        unsigned a[4], b[2];
        ldmatrix_x4(a, &a_tile[s % 2][lane() % 16][lane() / 16 * 8]);
        ldmatrix_x2(b, &b_tile[s % 2][lane() % 8][lane() / 8 % 2 * 8]);
        mma_f16_k16(c, a, b);
        block_sync();
    }
    const int g = lane() / 4, t = lane() % 4 * 2;
    p.c[g * 8 + t] = c[0];
    p.c[g * 8 + t + 1] = c[1];
    p.c[(g + 8) * 8 + t] = c[2];
    p.c[(g + 8) * 8 + t + 1] = c[3];
}

struct ByteParams { const signed char* in; signed char* out; int* dot; int n; };

// Bytes side by side written by different threads; a warp's own exchange through shared memory; a dot product.
extern "C" __global__ void __launch_bounds__(64) control_bytes(const ByteParams p) {
    SHARED(signed char, bytes, [64]);
    const int i = threadIdx.x;
    bytes[i] = p.in[i];
    warp_sync();
    p.out[i] = bytes[i ^ 1];
    block_sync();
    const int word = i < 16 ? reinterpret_cast<const int*>(bytes)[i] : 0;
    int d = 0;
    for (int shift = 0; shift < 32; shift += 8) d += static_cast<signed char>(word >> shift) * static_cast<signed char>(word >> shift);
    d = warp_sum(d);
    if (i == 0) atomic_add(p.dot, d);
}
