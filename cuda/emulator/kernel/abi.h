// What compiled kernels and the emulator's runtime say to each other.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifndef __x86_64__
#error "the CUDA emulator switches fibers by hand and knows x86-64 only"
#endif

namespace emu {

// What a CUDA thread knows of itself; the runtime keeps one per fiber.
struct Lane {
    unsigned thread[3], block[3], threads[3], blocks[3];
};

// A kernel as the driver sees it. `params` is the size of its one parameter struct, `threads` its launch bound.
struct Kernel {
    const char* name;
    size_t params;
    unsigned threads;
    void (*run)(const void* params);
};

// Where a wrapper was called; also what makes two barriers different ones.
struct Site {
    const char* file;
    int line;
    static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

// What a whole warp does at once: each lane posts a value and gets one back.
enum class Op {
    Sync, Shuffle, ShuffleWords, Ballot,
    SumF32, SumI32, SumU32, SumU64, MaxF32, MaxI32, MaxU32, MaxU64,
    GroupSumF32, GroupSumI32, GroupMaxF32, GroupMaxU32,
    MmaS8M8N8K16, MmaS8M16N8K16, MmaS8M16N8K32, MmaF16M16N8K8, MmaF16M16N8K8Twice, MmaF16M16N8K16, MmaBf16M16N8K16,
    Ldmatrix, LdmatrixTransposed,
};

// Operands of a tensor-core instruction, ldmatrix or a shuffle of several words, on the stack of each lane.
struct Fragments {
    void* c;
    const void* a;
    const void* b;
    int count; // of instructions one after the other (an array), of matrices, of words
};

} // namespace emu

#pragma GCC visibility push(default)
extern "C" {
extern thread_local emu::Lane* emu_self __attribute__((tls_model("initial-exec")));
uint64_t emu_warp(emu::Op op, uint64_t value, int argument, emu::Site site);
void emu_block_sync(emu::Site site);
int emu_last_block(unsigned* ticket, unsigned blocks, emu::Site site);
void* emu_shared(const void* key, size_t bytes, const char* name);
void* emu_dynamic_shared();
void emu_copy_async(void* shared, const void* global, int valid);
void emu_copy_commit();
void emu_copy_wait(int pending);
// A store to host memory has happened, or (null) a fence between such stores.
void emu_publish(const void* p);
void emu_prefetch(const void* p, const void* pc);
void emu_depend_wait();
void emu_atomic_access(void* p, size_t bytes, const void* pc);
const emu::Kernel* emu_kernels(size_t* count);
}
#pragma GCC visibility pop
