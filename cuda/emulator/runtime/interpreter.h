// What executes the image of a module in place of the kernels that g++ compiled: functions of the crate's Rust side
// (isa/link.rs), which registers them as soon as it has opened this library. Texts that go from one side to the other are of
// `malloc`, and the other side's to free.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace emu {

// One launch, and what the interpreter asks of the machine meanwhile. isa/link.rs has the same struct.
struct Interpretation {
    const void *kernel, *params; // `kernel` is the interpreter's own
    uint64_t bytes;              // of the parameters
    uint32_t grid[3], block[3];
    uint32_t shared, shared_limit;
    uint32_t order, approximation; // 0 forward, 1 reverse, 2 random; 0 exact, 1 low, 2 high
    uint64_t dependent;            // whether its threads wait for the kernels before it by themselves
    uint64_t order_seed, seed;     // of the order; of the launch, another one each time
    uint64_t ends;                 // blocks at both ends of the grid that run; 0: all
    void *counts, *machine;
    // The bounds of what holds an address, or (null where there is such a thing) what the address is.
    char* (*region)(void* machine, uint64_t address, uint64_t* begin, uint64_t* end);
    // A store to host memory has happened, or (null) a fence between such stores.
    void (*published)(void* machine, const void* address);
    // The launch read and wrote so many bytes of the region that begins there, each counted once.
    void (*traffic)(void* machine, uint64_t begin, uint64_t read, uint64_t written);
};

struct Interpreter {
    // The image (PTX without its NUL, or a cubin), read once and kept for as long as the process lives; null, and why, where it
    // cannot be executed.
    const void* (*read)(const char* image, uint64_t bytes, char** error);
    // A kernel of the image, the size of its parameters and its launch bound; null where the image has none of this name.
    const void* (*kernel)(const void* image, const char* name, uint64_t* params, uint32_t* threads);
    // 0, or the code of a driver error, and its report.
    int (*run)(const Interpretation* launch, char** report);
    // What is counted on a machine: made with it, emptied, deleted with it.
    void* (*counts)();
    void (*reset)(void* counts);
    void (*forget)(void* counts);
};

// Null in a process that has only this library.
const Interpreter* interpreter();

} // namespace emu
