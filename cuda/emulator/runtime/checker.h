// Finds races, uninitialised reads and accesses out of bounds from every load and store of a kernel, by happens-before: what
// it finds does not depend on the order in which the threads happened to run.
#pragma once
#include <unordered_map>

#include "machine.h"

namespace emu {

// Who touched a cell last. `clock` counts barriers, warp synchronisations, blocks and launches of the machine.
struct Record {
    uint64_t clock : 48, thread : 10;
    uint64_t spread : 2;  // of reads, not ordered among themselves: 0 one thread, 1 one warp, 2 one block, 3 several blocks
    uint64_t atomic : 1, pending : 1; // pending: an asynchronous copy that nobody has waited for
};

// What is remembered of a word, or of a byte where a word was not touched as a whole. Zero is: never touched.
struct Cell {
    Record write, read;
    uint32_t wrote_at, read_at; // low bits of the program counter
};

enum class Access { Read, Write, Atomic, Copy, Matrix, Prefetch };

class Checker {
  public:
    explicit Checker(Machine& machine);
    ~Checker();
    Checker(const Checker&) = delete;

    void begin(Block& block);
    // The host has waited: all that was launched has ended.
    void synchronized() { boundary_clock = ++clock; }
    void begin_block();
    void barrier() { barrier_clock = ++clock; }
    void warp_sync(Warp& warp) { warp.clock = ++clock; }
    // A block counts itself in at a ticket; the last one sees what the others did before.
    void arrive(const void* ticket, int last);
    void access(uintptr_t address, size_t bytes, Access how, const void* pc) { access(*static_cast<Thread*>(emu_self), address, bytes, how, pc); }
    void access(Thread& thread, uintptr_t address, size_t bytes, Access how, const void* pc);
    void copy_ends(void* shared, const void* pc);
    void publish(const void* p) { machine.publish(p); }

  private:
    struct Shadow {
        Cell *words, *bytes;
        unsigned char* split; // of each word: whether its bytes have cells of their own
    };
    struct Touch { // one access, as the cells see it
        Thread& thread;
        uintptr_t address;
        Access how;
        uint32_t pc;
        Region* region; // null for shared memory
    };
    struct Interval {
        uint64_t start, release;
        bool operator<(const Interval& other) const { return start < other.start; }
    };

    static Shadow shadow_at(void* memory, size_t bytes);
    Shadow shadow_of(Region& region);
    template <class F> void cells(const Shadow& shadow, uintptr_t origin, uintptr_t address, size_t bytes, F each);
    void touch(Cell& cell, size_t bytes, const Touch& touch);
    void read(Cell& cell, const Touch& touch);
    bool ordered(const Record& r, const Touch& touch) const;
    bool acquired_at(uint64_t clock) const;
    bool in_shared(const Thread& thread, uintptr_t address, size_t bytes, Access how, const void* pc);
    Region* region_of(uintptr_t address);
    std::string name(const Touch& touch) const;
    [[noreturn]] void race(const Touch& touch, const Record& other, uint32_t other_pc, const char* did);
    [[noreturn]] void outside(Thread& thread, uintptr_t address, size_t bytes, Access how, const void* pc);
    const void* full(uint32_t pc) const;

    Machine& machine;
    Block* block = nullptr;
    uint64_t clock = 1, launch_clock = 1, block_clock = 1, barrier_clock = 1;
    uint64_t boundary_clock = 1; // what was done before has ended, also for threads that have yet to wait for their predecessors
    std::vector<std::pair<uint64_t, uint64_t>> blocks; // clock and index of those that began in this launch
    std::unordered_map<const void*, std::vector<Interval>> tickets;
    std::vector<Interval> acquired;
    void* shared_memory;
    Shadow shared;
    uintptr_t code = 0, code_end = 0;
    struct Cached {
        uintptr_t tag;
        Region* region;
    };
    std::vector<Cached> cache;
    uint64_t layout = ~0ull;
};

} // namespace emu
