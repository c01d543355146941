// Planted bugs: what happens before what.
#include "ptx.cuh"

struct BugParams { float* a; float* b; unsigned char* bytes; int n; };
#define BUG(name) extern "C" __global__ void __launch_bounds__(64) bug_##name(const BugParams p)

BUG(no_barrier_before_read) {
    SHARED(float, tile, [64]);
    tile[threadIdx.x] = p.a[threadIdx.x];
    p.b[threadIdx.x] = tile[63 - threadIdx.x];
}

BUG(no_barrier_before_reduction_result) {
    SHARED(float, partial, [2]);
    const float s = warp_sum(p.a[threadIdx.x]);
    if (lane() == 0) partial[warp()] = s;
    if (threadIdx.x == 0) p.b[0] = partial[0] + partial[1];
}

BUG(no_barrier_before_overwrite) {
    SHARED(float, tile, [64]);
    tile[threadIdx.x] = p.a[threadIdx.x];
    block_sync();
    const float v = tile[63 - threadIdx.x];
    tile[threadIdx.x] = v + 1;
}

BUG(no_barrier_between_rounds) {
    SHARED(float, tile, [64]);
    float s = 0;
    for (int i = 0; i < 2; i++) {
        tile[threadIdx.x] = p.a[threadIdx.x] + i;
        block_sync();
        s += tile[threadIdx.x ^ 32];
    }
    p.b[threadIdx.x] = s;
}

BUG(no_warp_sync) {
    SHARED(float, tile, [64]);
    tile[threadIdx.x] = p.a[threadIdx.x];
    p.b[threadIdx.x] = tile[threadIdx.x ^ 1];
}

BUG(shuffle_is_no_warp_sync) {
    SHARED(float, tile, [64]);
    tile[threadIdx.x] = p.a[threadIdx.x];
    const float s = warp_sum(p.a[threadIdx.x]);
    p.b[threadIdx.x] = tile[threadIdx.x ^ 1] + s;
}

BUG(warp_sync_is_no_barrier) {
    SHARED(float, tile, [64]);
    tile[threadIdx.x] = p.a[threadIdx.x];
    warp_sync();
    p.b[threadIdx.x] = tile[threadIdx.x ^ 32];
}

BUG(no_warp_sync_before_ldmatrix) {
    SHARED(unsigned short, tile, [2][16][8]);
    if (lane() < 16)
        for (int i = 0; i < 8; i++) tile[warp()][lane()][i] = lane() + i;
    unsigned r[2];
    ldmatrix_x2(r, tile[warp()][lane() % 16]);
    p.b[threadIdx.x] = r[0];
}

BUG(shared_sum_without_atomic) {
    SHARED(float, total);
    if (threadIdx.x == 0) total = 0;
    block_sync();
    total += p.a[threadIdx.x];
}

BUG(atomic_beside_plain_read) {
    SHARED(int, total);
    if (threadIdx.x == 0) total = 0;
    block_sync();
    atomic_add(&total, 1);
    p.b[threadIdx.x] = total;
}

BUG(no_wait_for_async_copy) {
    SHARED(float, tile, [64]);
    if (threadIdx.x < 16) cp_async16(tile + 4 * threadIdx.x, p.a + 4 * threadIdx.x, 1);
    cp_async_commit();
    block_sync();
    p.b[threadIdx.x] = tile[threadIdx.x];
}

BUG(wait_for_the_wrong_group) {
    SHARED(float, tile, [64]);
    if (threadIdx.x < 16) cp_async16(tile + 4 * threadIdx.x, p.a + 4 * threadIdx.x, 1);
    cp_async_commit();
    cp_async_wait<1>();
    block_sync();
    p.b[threadIdx.x] = tile[threadIdx.x];
}

BUG(no_commit) {
    SHARED(float, tile, [64]);
    if (threadIdx.x < 16) cp_async16(tile + 4 * threadIdx.x, p.a + 4 * threadIdx.x, 1);
    cp_async_wait<0>();
    block_sync();
    p.b[threadIdx.x] = tile[threadIdx.x];
}

BUG(wait_without_barrier) {
    SHARED(float, tile, [64]);
    if (threadIdx.x < 16) cp_async16(tile + 4 * threadIdx.x, p.a + 4 * threadIdx.x, 1);
    cp_async_commit();
    cp_async_wait<0>();
    p.b[threadIdx.x] = tile[threadIdx.x];
}

BUG(async_copy_over_what_is_read) {
    SHARED(float, tile, [64]);
    float s = 0;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x < 16) cp_async16(tile + 4 * threadIdx.x, p.a + 4 * threadIdx.x, 1);
        cp_async_commit();
        cp_async_wait<0>();
        block_sync();
        s += tile[threadIdx.x];
    }
    p.b[threadIdx.x] = s;
}

BUG(blocks_write_one_cell) { p.b[threadIdx.x] = blockIdx.x; }

BUG(blocks_sum_without_atomic) {
    if (threadIdx.x == 0) p.b[0] += 1;
}

BUG(reads_what_another_block_writes) {
    p.b[blockIdx.x * 16 + threadIdx.x % 16] = p.a[threadIdx.x];
}

BUG(overwrites_what_another_block_reads) {
    if (threadIdx.x < 32) p.b[32 * blockIdx.x + threadIdx.x] = p.a[32 * (gridDim.x - 1) + threadIdx.x];
    if (blockIdx.x == p.n && threadIdx.x < 32) p.a[32 * p.n + threadIdx.x] = 1;
}

BUG(ticket_without_fence) {
    unsigned* ticket = reinterpret_cast<unsigned*>(p.bytes);
    SHARED(unsigned, arrived);
    p.a[32 * blockIdx.x + lane()] = 1;
    if (threadIdx.x == 0) arrived = atomic_add(ticket, 1u);
    block_sync();
    if (arrived == gridDim.x - 1) p.b[threadIdx.x] = p.a[threadIdx.x];
}

BUG(writes_after_it_arrived) {
    unsigned* ticket = reinterpret_cast<unsigned*>(p.bytes);
    const int last = last_block(ticket, gridDim.x);
    if (!last && threadIdx.x == 0) p.a[blockIdx.x] = 1;
    if (last && threadIdx.x == 0) p.b[0] = p.a[gridDim.x - 1 - blockIdx.x];
}

BUG(barrier_on_two_sides) {
    if (threadIdx.x < 32)
        block_sync();
    else
        block_sync();
}

BUG(barrier_in_uneven_loop) {
    for (int i = 0; i < 1 + warp(); i++) block_sync();
}

BUG(barrier_after_exit) {
    if (threadIdx.x >= 40) return;
    block_sync();
}

BUG(barrier_in_branch) {
    if (lane() < 16) block_sync();
    p.b[threadIdx.x] = warp_sum(1.0f);
}

BUG(shuffle_in_branch) {
    float v = p.a[threadIdx.x];
    if (lane() < 16) v = shuffle_xor(v, 1);
    p.b[threadIdx.x] = v;
}

BUG(shuffle_after_exit) {
    if (threadIdx.x == 40) return;
    p.b[threadIdx.x] = warp_sum(p.a[threadIdx.x]);
}

BUG(two_sums_in_branches) {
    p.b[threadIdx.x] = lane() % 2
        ? warp_sum(1.0f)
        : warp_sum(2.0f);
}
