// An emulated computer: its settings, its memory, its counters, the failures it was told to have.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "block.h"

namespace emu {

// Which of a kernel's programs runs: what g++ compiled, or the PTX of the image that was loaded.
enum class Program { Source, Ptx, Sass };

struct Settings {
    int sm = 80, first = 0, devices = 1, driver = 12080; // `first`: of the first GPU, where it is another one
    uint64_t memory = 8ull << 30, seed = 0, blocks = 0;
    bool checked = false, execute = true, delayed = false;
    Order order = Order::Forward;
    Program code = Program::Source;
    unsigned approximation = 0; // of the interpreter: 0 exact, 1 low, 2 high

    // "sm=75,memory=4g,checked=1,order=random:7,fail=cuMemAlloc:2:2"; false where a word is unknown.
    bool parse(const std::string& text, std::vector<struct Failure>& failures);
};

// A call of a driver function (any function where `call` is empty) returns `code` and does nothing: the one after `left - 1` more.
struct Failure {
    std::string call;
    uint64_t left;
    int code;
};

// Device or pinned host memory, or a part that `fence` named. Exact bounds; `read` and `written` count each byte once per launch.
struct Region {
    uintptr_t begin, end;
    std::string name;
    Region* parent = nullptr; // of a fence: the allocation
    uint64_t read = 0, written = 0;
    std::map<uintptr_t, Region> fences;
    size_t mapped = 0; // bytes of pages; 0 for host memory that is only registered
    void* shadow = nullptr;
};

size_t shadow_bytes(const Region& region);

struct Counters {
    std::map<std::string, uint64_t> calls, launches;
    uint64_t syncs = 0, allocations = 0, bytes_in = 0, bytes_out = 0, bytes_within = 0;
};

struct Gpu; // what a model of GPU has (machine.cpp)

struct Stream;
struct Context;

class Machine {
  public:
    explicit Machine(Settings settings);
    ~Machine();
    Machine(const Machine&) = delete;

    const Settings settings;
    const Gpu& gpu;
    std::recursive_mutex lock;
    Counters counters;
    std::vector<Failure> failures;
    int sticky = 0;         // a kernel failed: every later call fails the same way
    std::string report;     // of that kernel, or of the last call that did not fit
    int report_code = 0;
    // Where the machine is checked: the 16 bytes around each store that was meant for a polling host, and "fence" between them.
    std::string published;
    std::deque<std::string> kept; // strings that the driver API gave out
    int contexts = 0;
    bool dropped = false;
    uint64_t used = 0, launches = 0;
    std::vector<Stream*> streams;
    std::vector<std::unique_ptr<Context>> primary;
    std::unique_ptr<Checker> checker; // where the machine is checked, from the first launch on
    void* const counts;               // the interpreter's, where it executes; else null

    // Device memory, aligned to 256 bytes, with an unmapped page behind it. 0 where there is no room.
    uintptr_t allocate(size_t bytes);
    bool release(uintptr_t address);
    void* allocate_host(size_t bytes);
    bool register_host(void* p, size_t bytes);
    bool release_host(void* p);
    // Exact bounds inside an allocation: what lies outside all of its fences belongs to nobody.
    bool fence(uintptr_t address, size_t bytes, const std::string& name);
    // The allocation (or pinned host memory) or fence that holds an address, or null.
    Region* find(uintptr_t address, bool inside_fences);
    bool valid(uintptr_t address, size_t bytes);
    std::string describe(uintptr_t address);
    // Notes what a host that polls could see now, or (null) a fence; nothing where the machine is not checked.
    void publish(const void* p);
    void reset_counters();
    std::string print_counters();
    // Counts a driver call; the code that it must fail with, or 0.
    int count(const char* call);
    // Whether this launch was told never to end.
    bool sticks(const std::string& kernel);
    // Device memory that has no address: code, graphs. False where there is no room.
    bool charge(uint64_t bytes);

    const uintptr_t base;
    const size_t span;
    uint64_t layout = 0; // changes with every allocation and fence

  private:
    uintptr_t top;
    std::map<uintptr_t, Region> device, host;
};

struct Gpu {
    int sm;
    const char* name;
    int multiprocessors, threads, shared_per_block, shared, l2, clock, memory_clock, bus;
};

// The machine of this thread: the one it entered, else the process's, which QRUN_EMULATOR describes.
Machine& entered();
Machine* machine_of(uintptr_t device_address);
std::string describe_address(uintptr_t address);
std::string source_line(const void* pc);
// Kernels compiled for an architecture (75 or 80), by name; null where there is none.
const Kernel* find_kernel(int arch, bool checked, const std::string& name);

} // namespace emu
