// A link of a chain of kernels that may start before their predecessors have ended: right, and wrong in several ways.
#include "ptx.cuh"

struct LinkParams { const float* from; float* to; const float* constant; int n; };
enum { RIGHT, READS_EARLY, WRITES_EARLY, NEVER_WAITS, ONE_LANE_WAITS, READS_A_CONSTANT_EARLY, PREFETCHES_EARLY };

extern "C" __global__ void __launch_bounds__(64) depend_link(const LinkParams p) {
    const int i = threadIdx.x;
    float v = p.n == READS_A_CONSTANT_EARLY ? p.constant[i] : 0.0f;
    if (p.n == READS_EARLY) v = p.from[i];
    if (p.n == WRITES_EARLY) p.to[i] = v;
    if (p.n == PREFETCHES_EARLY) prefetch(p.from, 64 * sizeof(float));
    depend_launch();
    if (p.n != NEVER_WAITS && (p.n != ONE_LANE_WAITS || i == 0)) depend_wait();
    p.to[i] = p.from[i] + v;
}
