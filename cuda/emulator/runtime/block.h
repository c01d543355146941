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

struct Thread : Lane {
    void* stack_pointer;
    Block* of;
    Warp* warp;
    unsigned lane, index;
    bool done;
    bool depends; // on kernels that it has not waited for yet
    const char* waits; // what it waits for, and where
    Site site;
    uint64_t value; // what it posted to the warp, then what it gets
    int argument;
    const void* pc; // of the warp operation that it posted to
    unsigned group; // of its asynchronous copies
    std::vector<AsyncCopy> copies;
};

struct Warp {
    Thread* lanes[32];
    unsigned exists, arrived, exited;
    Op op;
    Site site;
    uint64_t clock; // of its last collective: what its lanes did before is ordered
};

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
    void wait(Thread& thread, const char* what, Site site);
    void release(Warp& warp, Thread& last);

  private:
    void start(Dim index);
    void push(Thread* thread) { ring[tail++ & (MAX_THREADS - 1)] = thread; }
    void push_front(Thread* thread) { ring[--head & (MAX_THREADS - 1)] = thread; }
    void next(void** save);
    void exit(Thread& thread);
    [[noreturn]] void deadlock();
    [[noreturn]] void leave();
    void report_trap();
    static void enter();
};

// The block that this OS thread runs, or null: what tells a fault in a kernel from any other.
Block* running();
// Computes a collective for all lanes of a warp that posted.
void collective(Op op, Warp& warp);
std::string where(Site site);
std::string who(const Thread& thread);
void watch_faults();

enum Code {
    INVALID_VALUE = 1, OUT_OF_MEMORY = 2, LAUNCH_OUT_OF_RESOURCES = 701, ILLEGAL_ADDRESS = 700, MISALIGNED = 716, LAUNCH_FAILED = 719
};

} // namespace emu
