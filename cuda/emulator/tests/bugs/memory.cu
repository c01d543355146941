// Planted bugs: what is touched. One per kernel; the test expects the report to name it.
#include "ptx.cuh"

struct BugParams { float* a; float* b; unsigned char* bytes; int n; };
#define BUG(name) extern "C" __global__ void __launch_bounds__(64) bug_##name(const BugParams p)

BUG(read_past_end) { p.b[threadIdx.x] = p.a[threadIdx.x + 1]; }

BUG(write_past_end) { p.a[threadIdx.x + (threadIdx.x == 63)] = 1; }

BUG(read_before_start) { p.b[threadIdx.x] = p.a[static_cast<int>(threadIdx.x) - 1]; }

BUG(wide_load_crosses_end) { p.b[threadIdx.x] = p.n && threadIdx.x == 0 ? load_weights16(p.a + 64 - 4 + p.n).x : 0; }

BUG(atomic_past_end) { atomic_add(reinterpret_cast<int*>(p.a) + 64 + threadIdx.x, 1); }

BUG(prefix_of_host_memory) { p.b[threadIdx.x] = reinterpret_cast<const float*>(p.bytes)[threadIdx.x]; }

BUG(static_shared_index) {
    SHARED(float, tile, [8][8]);
    tile[threadIdx.x / 8][threadIdx.x % 8 + p.n] = 1;
    block_sync();
    p.b[threadIdx.x] = tile[threadIdx.x / 8][threadIdx.x % 8];
}

BUG(static_shared_pointer) {
    SHARED(float, tile, [64]);
    float* at = tile;
    at[threadIdx.x + p.n] = 1;
}

BUG(dynamic_shared) {
    DYN_SHARED(float, part);
    part[threadIdx.x + p.n] = 1;
}

BUG(dynamic_shared_before_start) {
    DYN_SHARED(float, part);
    part[static_cast<int>(threadIdx.x) - p.n] = 1;
}

BUG(local_array) {
    float v[4] = {1, 2, 3, 4};
    v[threadIdx.x % 4 + p.n] = 7;
    p.b[threadIdx.x] = v[0] + v[1] + v[2] + v[3];
}

BUG(uninitialised_shared) {
    SHARED(float, tile, [64]);
    if (threadIdx.x < 63) tile[threadIdx.x] = 1;
    block_sync();
    p.b[threadIdx.x] = tile[threadIdx.x];
}

BUG(shared_of_the_block_before) {
    SHARED(float, tile, [64]);
    if (blockIdx.x == 0) tile[threadIdx.x] = 1;
    block_sync();
    p.b[threadIdx.x] = tile[threadIdx.x];
}

BUG(misaligned_word) { p.b[threadIdx.x] = *reinterpret_cast<const int*>(p.bytes + 34 * (threadIdx.x % 4) + 2); }

BUG(misaligned_vector) { p.b[threadIdx.x] = reinterpret_cast<const int4*>(p.bytes + 8)->x; }

BUG(misaligned_weights) { p.b[threadIdx.x] = load_weights8(p.bytes + 4).x; }

BUG(misaligned_atomic) { atomic_add(reinterpret_cast<unsigned*>(p.bytes + 2), 1u); }

BUG(misaligned_async_copy) {
    SHARED(unsigned char, tile, [64][16]);
    cp_async16(tile[threadIdx.x], p.bytes + 8 * (threadIdx.x % 2), 1);
    cp_async_commit();
    cp_async_wait<0>();
}

BUG(misaligned_matrix_row) {
    SHARED(unsigned short, tile, [16 * 12]);
    for (int i = threadIdx.x; i < 16 * 12; i += 64) tile[i] = 0;
    block_sync();
    unsigned r[2];
    ldmatrix_x2(r, tile + lane() % 16 * 12);
    p.b[threadIdx.x] = r[0];
}

BUG(shift_too_far) { p.b[threadIdx.x] = 1u << (30 + p.n + threadIdx.x % 2); }

BUG(too_much_static_shared) {
    SHARED(unsigned char, tile, [50 << 10]);
    tile[threadIdx.x] = 1;
}

static __device__ __noinline__ float deep(const float* v, int n) {
    float big[5000];
    for (int i = 0; i < 5000; i++) big[i] = v[i % 4] + n;
    return n > 8 ? big[n] : deep(big, n + 1) + big[n];
}
BUG(stack_too_deep) {
    const float v[4] = {1, 2, 3, 4};
    p.b[threadIdx.x] = deep(v, p.n);
}
