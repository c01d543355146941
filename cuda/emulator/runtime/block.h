// Runs a kernel: blocks one after another, each CUDA thread a fiber.
#pragma once
#include <string>
#include <vector>

#include "abi.h"

namespace emu {

class Checker;

enum class Order { Forward, Reverse, Random };

struct Dim {
    unsigned x, y, z;
    uint64_t count() const { return static_cast<uint64_t>(x) * y * z; }
};

// Everything about one launch. `shared_limit` bounds static and dynamic shared memory together; `checker` is null in the
// fast build.
struct Launch {
    const Kernel* kernel;
    const void* params;
    Dim grid, block;
    unsigned shared, shared_limit;
    Order order;
    uint64_t seed;
    Checker* checker;
    uint64_t ends; // blocks at both ends of the grid that run; 0: all
    bool dependent; // it may start before its predecessors have ended: each thread waits for them by itself
};

// Why a kernel failed: a driver error code and the report for people.
struct Fault {
    int code = 0;
    std::string report;
};

// Runs all blocks on the calling OS thread; stops at the first fault.
Fault run(const Launch& launch);

constexpr size_t PAGE = 4096, STACK_BYTES = 64 << 10, ARENA_BYTES = 256 << 10;
constexpr int MAX_THREADS = 1024;

struct Warp;
struct Block;

struct AsyncCopy {
    void* shared;
    const void* global;
    int valid;
    unsigned group;
};

// What changing to a thread touches is its first cache line: `Lane`, and two words.
struct alignas(64) Thread : Lane {
    void* stack_pointer;
    Warp* warp;
    unsigned index;
    unsigned group; // of its asynchronous copies
    bool done;
    bool depends; // on kernels that it has not waited for yet
    std::vector<AsyncCopy> copies;

    unsigned lane() const;
    Block& block_running() const;
};

// What its lanes post for a collective, side by side.
struct Warp {
    Block* of;
    unsigned exists, arrived, exited;
    Op op;
    Site site;
    uint64_t clock; // of its last collective: what its lanes did before is ordered
    uint64_t values[32]; // what each posted, then what it gets
    int arguments[32];
    const void* pcs[32]; // of the operation
    Thread* lanes; // one after another
};

inline unsigned Thread::lane() const { return static_cast<unsigned>(this - warp->lanes); }
inline Block& Thread::block_running() const { return *warp->of; }

struct SharedArray {
    const void* key;
    const char* name;
    unsigned char* begin;
    size_t bytes;
};

// The block that runs now, and what blocks of a launch have in common. One per OS thread that launches, reused.
struct Block {
    const Launch* launch;
    void* main_stack;
    unsigned char *stacks, *arena;
    unsigned char* dynamic;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<SharedArray> shared;
    size_t static_bytes, static_end;
    unsigned alive, at_barrier;
    int vote, voted;
    const char* barrier_name;
    Site barrier_site;
    uint64_t serial, random;
    std::vector<Thread*> ring, shuffled;
    unsigned head, tail;
    Fault fault;
    struct { const Thread* thread; uintptr_t address; const void* pc; } trap;

    Block();
    ~Block();
    Block(const Block&) = delete;
    uint64_t draw();
    void run(const Launch& launch, Fault& out);
    // Records the first fault of the launch and leaves the kernel for good.
    [[noreturn]] void fail(int code, const std::string& report);
    // The same from a signal handler, whose stack is too small for a report.
    [[noreturn]] void trapped(uintptr_t address, const void* pc);
    int barrier(int vote, Site site, const char* what);
    void wait(Thread& thread) { next(&thread.stack_pointer); }
    void release(Warp& warp, Thread& last);
    // Why a thread may not be where it is: in a collective, at the barrier.
    [[noreturn, gnu::cold]] void diverged(const Thread& thread, Site site);
    [[noreturn, gnu::cold]] void misplaced(const Thread& thread, Site site);

  private:
    void next(void** save);
    void start(Dim index);
    void push(Thread* thread) { ring[tail++ & (MAX_THREADS - 1)] = thread; }
    void push_front(Thread* thread) { ring[--head & (MAX_THREADS - 1)] = thread; }
    void exit(Thread& thread);
    [[noreturn]] void deadlock();
    [[noreturn]] void leave();
    void report_trap();
    static void enter();
};

// The block that this OS thread runs, or null: what tells a fault in a kernel from any other.
inline Block* running() { return emu_self ? &static_cast<Thread*>(emu_self)->block_running() : nullptr; }
// Computes a collective for all lanes of a warp that posted.
void collective(Op op, Warp& warp);
std::string where(Site site);
std::string who(const Thread& thread);
void watch_faults();

enum Code {
    INVALID_VALUE = 1, OUT_OF_MEMORY = 2, LAUNCH_OUT_OF_RESOURCES = 701, ILLEGAL_ADDRESS = 700, MISALIGNED = 716, LAUNCH_FAILED = 719
};

} // namespace emu
