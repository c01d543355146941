// One warp and one word of ptx.cuh at a time: which lane holds what in the tensor cores' fragments, in ldmatrix and in cp.async.
// Tests compare with the layouts of the PTX manual, on the emulator and on every GPU they meet.
//
// Grid: a block of 32 threads, 512 bytes of shared memory. Moves 1.25 KB in and 512 bytes out.
#include "ptx.cuh"

struct FragmentsParams {
    int op;
    int pad;
    const unsigned* a;  // [32 lanes][4]
    const unsigned* b;  // [32 lanes][2]
    unsigned* c;        // [32 lanes][4]: in and out
};

enum Op {
    S8_M8N8K16,
    S8_K16,
    S8_K32,
    F16_K8,
    F16_K16,
    BF16_K16,
    LDMATRIX_X2,
    LDMATRIX_X2_TRANS,
    LDMATRIX_X4,
    LDMATRIX_X4_TRANS,
    CP_ASYNC,
};

extern "C" __global__ void __launch_bounds__(32) fragments(const FragmentsParams p) {
    SHARED(uint4, rows, [32]);
    unsigned a[4], b[2], c[4];
    for (int i = 0; i < 4; i++) {
        a[i] = p.a[4 * lane() + i];
        b[i % 2] = p.b[2 * lane() + i % 2];
        c[i] = p.c[4 * lane() + i];
    }
    int* integers = (int*)c;
    int sums[4];  // from this lane's first element of c in each
    float floats[4];
    for (int i = 0; i < 4; i++) floats[i] = __uint_as_float(c[i]);
    if (p.op == CP_ASYNC) {  // b[0]: which 16 bytes of a; b[1]: whether they are wanted. Two groups; the later one may still be under way.
        const uint4* from = (const uint4*)p.a;
        if (lane() < 16) cp_async16(&rows[lane()], from + b[0], b[1]);
        cp_async_commit();
        if (lane() >= 16) cp_async16(&rows[lane()], from + b[0], b[1]);
        cp_async_commit();
        cp_async_wait<1>();
        warp_sync();
        if (lane() < 16) *(uint4*)c = rows[15 - lane()];
        cp_async_wait<0>();
        warp_sync();
        if (lane() >= 16) *(uint4*)c = rows[47 - lane()];
    } else if (p.op >= LDMATRIX_X2) {  // b[0]: the row that this lane gives
        rows[lane()] = {a[0], a[1], a[2], a[3]};
        warp_sync();
        switch (p.op) {
            case LDMATRIX_X2: ldmatrix_x2(c, &rows[b[0]]); break;
            case LDMATRIX_X2_TRANS: ldmatrix_x2_trans(c, &rows[b[0]]); break;
            case LDMATRIX_X4: ldmatrix_x4(c, &rows[b[0]]); break;
            case LDMATRIX_X4_TRANS: ldmatrix_x4_trans(c, &rows[b[0]]); break;
        }
    } else {
        switch (p.op) {
            case S8_M8N8K16: mma_s8_m8n8k16(integers, a[0], b[0]); break;
            case S8_K16: mma_s8_k16((int)c[0], sums, a, b[0]); break;
            case S8_K32: mma_s8_k32((int)c[0], sums, a, b); break;
            case F16_K8: mma_f16_k8(floats, a, b[0]); break;
            case F16_K16: mma_f16_k16(floats, a, b); break;
#if HAS_BF16_MMA
            case BF16_K16: mma_bf16_k16(floats, a, b); break;
#endif
        }
    }
    if (p.op == S8_K16 || p.op == S8_K32) {
        for (int i = 3; i >= 0; i--) c[i] += (unsigned)sums[i] - c[0];
    }
    for (int i = 0; i < 4; i++) {
        p.c[4 * lane() + i] = p.op >= F16_K8 && p.op <= BF16_K16 ? __float_as_uint(floats[i]) : c[i];
    }
}
