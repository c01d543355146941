// What a machine can do, measured before any other number is believed: the cost of a launch, the speed of memory.
// (kernels.md, appendix D.)
//
// Grid, without shared memory:
//   probe_empty   a block of 32 threads. Moves nothing.
//   probe_read    as many blocks of 256 threads as the host likes. Moves 16 bytes per element in, and 32 per block out.
//   probe_copy    the same. Moves 16 bytes per element in and 16 out.
//   probe_link    a block of 256 threads. Moves 4 KB in and 4 KB out.
#include "ptx.cuh"

struct ProbeParams {
    const uint4* from;  // [n]
    uint4* to;
    unsigned n;    // elements of 16 bytes
    unsigned pad;
};

// Nothing: what remains is the launch.
extern "C" __global__ void __launch_bounds__(32) probe_empty(const ProbeParams) {}

// Reads everything once; the sums keep the loads from being left out. `to` holds one word per warp of the grid.
extern "C" __global__ void __launch_bounds__(256) probe_read(const ProbeParams p) {
    unsigned sum = 0, step = gridDim.x * 256, i = blockIdx.x * 256 + threadIdx.x;
    for (; i + 3ull * step < p.n; i += 4 * step) {
        uint4 a = load_weights16(p.from + i), b = load_weights16(p.from + i + step);
        uint4 c = load_weights16(p.from + i + 2 * step), d = load_weights16(p.from + i + 3 * step);
        sum += (a.x ^ a.y ^ a.z ^ a.w) + (b.x ^ b.y ^ b.z ^ b.w) + (c.x ^ c.y ^ c.z ^ c.w) + (d.x ^ d.y ^ d.z ^ d.w);
    }
    for (; i < p.n; i += step) {
        uint4 a = load_weights16(p.from + i);
        sum += a.x ^ a.y ^ a.z ^ a.w;
    }
    sum = warp_sum(sum);
    if (lane() == 0) ((unsigned*)p.to)[blockIdx.x * 8 + warp()] = sum;
}

extern "C" __global__ void __launch_bounds__(256) probe_copy(const ProbeParams p) {
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < p.n; i += gridDim.x * 256) p.to[i] = p.from[i];
}

// A link of a chain: what the kernel before it wrote, plus one. 256 threads and elements: 4 KB.
extern "C" __global__ void __launch_bounds__(256) probe_link(const ProbeParams p) {
    depend_launch();
    depend_wait();
    uint4 v = p.from[threadIdx.x];
    p.to[threadIdx.x] = make_uint4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
}
