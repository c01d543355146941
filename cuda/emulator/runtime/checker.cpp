#include "checker.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

namespace emu {

static constexpr size_t CACHE = 4096;

static size_t words_of(size_t bytes) { return bytes / 4 + 2; }
static size_t shadow_bytes(size_t bytes) { return words_of(bytes) * (5 * sizeof(Cell) + 1); }
size_t shadow_bytes(const Region& r) { return shadow_bytes(r.end - r.begin); }

// Cells of words that are nothing yet, for so many bytes.
static void* new_shadow(size_t bytes) {
    void* p = mmap(nullptr, shadow_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    // A cell is read before it is written: a page that began with that would be mapped twice, and interrupt the other processors.
#ifdef MADV_POPULATE_WRITE
    constexpr size_t SMALL = 1 << 20;
    if (bytes <= SMALL) madvise(p, words_of(bytes) * sizeof(Cell), MADV_POPULATE_WRITE);
#endif
    return p;
}

Checker::Checker(Machine& m) : machine(m), cache(CACHE) {
    shared_memory = new_shadow(ARENA_BYTES);
    shared = shadow_at(shared_memory, ARENA_BYTES);
}
Checker::~Checker() { munmap(shared_memory, shadow_bytes(ARENA_BYTES)); }

Checker::Shadow Checker::shadow_at(void* memory, size_t bytes) {
    const size_t n = words_of(bytes);
    Cell* words = static_cast<Cell*>(memory);
    return {words, words + n, reinterpret_cast<unsigned char*>(words + 5 * n)};
}
Checker::Shadow Checker::shadow_of(Region& region) {
    Region& root = region.parent ? *region.parent : region;
    const size_t bytes = root.end - root.begin;
    if (!root.shadow) root.shadow = new_shadow(bytes);
    return shadow_at(root.shadow, bytes);
}

// The mapped library that holds an address: its constants are host memory that kernels may read.
static int find_code(dl_phdr_info* info, size_t, void* data) {
    auto* range = static_cast<uintptr_t*>(data);
    uintptr_t low = ~0ul, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& h = info->dlpi_phdr[i];
        if (h.p_type != PT_LOAD) continue;
        low = std::min<uintptr_t>(low, info->dlpi_addr + h.p_vaddr);
        high = std::max<uintptr_t>(high, info->dlpi_addr + h.p_vaddr + h.p_memsz);
    }
    if (range[2] < low || range[2] >= high) return 0;
    range[0] = low, range[1] = high;
    return 1;
}

void Checker::begin(Block& b) {
    block = &b;
    launch_clock = ++clock;
    if (!b.launch->dependent) boundary_clock = launch_clock;
    blocks.clear();
    tickets.clear();
    const auto run = reinterpret_cast<uintptr_t>(b.launch->kernel->run);
    if (run - code >= code_end - code) {
        uintptr_t range[3] = {0, 0, run};
        dl_iterate_phdr(find_code, range);
        code = range[0], code_end = range[1];
    }
}

void Checker::begin_block() {
    block_clock = barrier_clock = ++clock;
    blocks.push_back({clock, block->serial});
    acquired.clear();
}

void Checker::arrive(const void* ticket, int last) {
    auto& arrivals = tickets[ticket];
    arrivals.push_back({block_clock, clock++});
    arrivals.insert(arrivals.end(), acquired.begin(), acquired.end());
    if (!last) return;
    acquired = std::move(arrivals);
    std::sort(acquired.begin(), acquired.end());
    tickets.erase(ticket);
}

bool Checker::acquired_at(uint64_t at) const {
    auto next = std::upper_bound(acquired.begin(), acquired.end(), Interval{at, 0});
    return next != acquired.begin() && at <= (--next)->release;
}

// Whether what `r` tells of happened before what `thread` does now.
bool Checker::ordered(const Record& r, const Touch& t) const {
    if (r.clock < (!t.region ? block_clock : t.thread.depends ? boundary_clock : launch_clock)) return true;
    if (t.region && t.thread.depends && r.clock < launch_clock) return false;
    if (r.pending) return false;
    if (r.spread == 3) return acquired.size() + 1 >= blocks.size() && r.clock < barrier_clock;
    if (r.clock < block_clock) return acquired_at(r.clock);
    if (r.clock < barrier_clock) return true;
    if (r.spread < 2 && r.thread / 32 == t.thread.index / 32 && r.clock < t.thread.warp->clock) return true;
    // ldmatrix hands a row to other lanes than the one that names it.
    return r.spread == 0 && r.thread == t.thread.index && t.how != Access::Matrix;
}

void Checker::touch(Cell& cell, size_t bytes, const Touch& t) {
    const bool reads = t.how == Access::Read || t.how == Access::Matrix;
    if (!ordered(cell.write, t) && !(t.how == Access::Atomic && cell.write.atomic))
        race(t, cell.write, cell.wrote_at, cell.write.pending ? "copies into it asynchronously" : "wrote it");
    if (reads) {
        if (!t.region && cell.write.clock < block_clock)
            block->fail(LAUNCH_FAILED, who(t.thread) + " reads " + name(t) + ", which nobody has written, in " + source_line(full(t.pc)));
        if (t.region && cell.read.clock < launch_clock) t.region->read += bytes;
        return read(cell, t);
    }
    if (!ordered(cell.read, t)) race(t, cell.read, cell.read_at, "read it");
    if (t.region && cell.write.clock < launch_clock) t.region->written += bytes;
    cell.write = {clock, t.thread.index, 0, t.how == Access::Atomic, t.how == Access::Copy};
    cell.wrote_at = t.pc;
}

// Remembers the latest read, and how far those go that are not ordered before it.
void Checker::read(Cell& cell, const Touch& t) {
    const Record& r = cell.read;
    unsigned spread = 0;
    const unsigned kept = r.spread; // what it was, where its readers are not all ordered before this one
    if (r.clock >= (t.region ? launch_clock : block_clock) && !ordered(r, t)) {
        if (kept == 3 || r.clock < block_clock) spread = 3;
        else if (kept == 2 || r.thread / 32 != t.thread.index / 32) spread = 2;
        else if (kept == 1 || r.thread != t.thread.index) spread = 1;
    }
    cell.read = {clock, t.thread.index, spread, 0, 0};
    cell.read_at = t.pc;
}

template <class F> void Checker::cells(const Shadow& shadow, uintptr_t origin, uintptr_t address, size_t bytes, F each) {
    for (uintptr_t a = address; a < address + bytes;) {
        const size_t w = a / 4 - origin / 4;
        if (a % 4 == 0 && address + bytes - a >= 4 && !shadow.split[w]) {
            each(shadow.words[w], a, 4);
            a += 4;
            continue;
        }
        if (!shadow.split[w]) {
            shadow.split[w] = 1;
            for (int i = 0; i < 4; i++) shadow.bytes[4 * w + i] = shadow.words[w];
        }
        each(shadow.bytes[4 * w + a % 4], a, 1);
        a++;
    }
}

Region* Checker::region_of(uintptr_t address) {
    if (layout != machine.layout) {
        layout = machine.layout;
        std::fill(cache.begin(), cache.end(), Cached{0, nullptr});
    }
    Cached& c = cache[(address >> 8) % CACHE];
    if (c.tag == address >> 8 && address - c.region->begin < c.region->end - c.region->begin) return c.region;
    Region* r = machine.find(address, true);
    if (r) c = {address >> 8, r};
    return r;
}

bool Checker::in_shared(const Thread& t, uintptr_t address, size_t bytes, Access how, const void* pc) {
    const auto arena = reinterpret_cast<uintptr_t>(block->arena), dynamic = reinterpret_cast<uintptr_t>(block->dynamic);
    if (address - arena >= ARENA_BYTES + PAGE) return false; // the page behind it cannot be touched
    bool inside = address - dynamic < block->launch->shared && address + bytes <= dynamic + block->launch->shared;
    for (const SharedArray& a : block->shared) {
        const auto begin = reinterpret_cast<uintptr_t>(a.begin);
        inside = inside || (address - begin < a.bytes && address + bytes <= begin + a.bytes);
    }
    if (!inside) {
        std::string near = "shared memory outside of all arrays";
        for (const SharedArray& a : block->shared) {
            const auto end = reinterpret_cast<uintptr_t>(a.begin) + a.bytes;
            if (address + bytes - end <= 64 + bytes) near = std::string("shared memory behind the end of ") + a.name + " (" + std::to_string(a.bytes) + " bytes)";
        }
        const char* verb = how == Access::Read || how == Access::Matrix ? " reads " : " writes ";
        block->fail(ILLEGAL_ADDRESS, who(t) + verb + near + " in " + source_line(pc));
    }
    return true;
}

void Checker::access(Thread& t, uintptr_t address, size_t bytes, Access how, const void* pc) {
    const auto stack = reinterpret_cast<uintptr_t>(block->stacks) + t.index * STACK_BYTES;
    if (address - stack < STACK_BYTES) return;
    Touch now{t, address, how, static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pc)), nullptr};
    const auto each = [&](Cell& cell, uintptr_t at, size_t n) {
        now.address = at;
        touch(cell, n, now);
    };
    if (in_shared(t, address, bytes, how, pc)) return cells(shared, reinterpret_cast<uintptr_t>(block->arena), address, bytes, each);
    Region* r = region_of(address);
    if (!r || address + bytes > r->end) {
        if (how == Access::Read && address - code < code_end - code) return;
        outside(t, address, bytes, how, pc);
    }
    if (how == Access::Prefetch) return;
    now.region = r;
    cells(shadow_of(*r), r->parent ? r->parent->begin : r->begin, address, bytes, each);
}

void Checker::copy_ends(void* to, const void* pc) {
    const auto arena = reinterpret_cast<uintptr_t>(block->arena);
    cells(shared, arena, reinterpret_cast<uintptr_t>(to), 16, [&](Cell& cell, uintptr_t, size_t) {
        cell.write = {clock, static_cast<Thread*>(emu_self)->index, 0, 0, 0};
        cell.wrote_at = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pc));
    });
}

const void* Checker::full(uint32_t pc) const {
    const auto run = reinterpret_cast<uintptr_t>(block->launch->kernel->run);
    return reinterpret_cast<const void*>(run + static_cast<uintptr_t>(static_cast<int32_t>(pc - static_cast<uint32_t>(run))));
}

std::string Checker::name(const Touch& t) const {
    if (t.region) return machine.describe(t.address);
    for (const SharedArray& a : block->shared) {
        const uintptr_t at = t.address - reinterpret_cast<uintptr_t>(a.begin);
        if (at < a.bytes) return "byte " + std::to_string(at) + " of " + std::to_string(a.bytes) + " of the shared " + a.name;
    }
    return "byte " + std::to_string(t.address - reinterpret_cast<uintptr_t>(block->dynamic)) + " of the dynamic shared memory";
}

void Checker::race(const Touch& t, const Record& other, uint32_t other_pc, const char* did) {
    auto in = std::upper_bound(blocks.begin(), blocks.end(), std::pair<uint64_t, uint64_t>(other.clock, ~0ull));
    if (t.thread.depends && other.clock < launch_clock)
        block->fail(LAUNCH_FAILED, "race: " + who(t.thread) + (t.how == Access::Read || t.how == Access::Matrix ? " reads " : " writes ") + name(t) + " in " +
                                       source_line(full(t.pc)) + " before depend_wait, and a kernel that may still run " + did + " in " +
                                       source_line(full(other_pc)));
    const uint64_t serial = in == blocks.begin() ? 0 : (--in)->second;
    const char* verb = t.how == Access::Read || t.how == Access::Matrix ? " reads " : t.how == Access::Atomic ? " updates " : " writes ";
    block->fail(LAUNCH_FAILED, "race: " + who(t.thread) + verb + name(t) + " in " + source_line(full(t.pc)) + ", block " +
                                   std::to_string(serial) + " thread " + std::to_string(other.thread) + " " + did + " in " +
                                   source_line(full(other_pc)) + ", and nothing orders the two");
}

void Checker::outside(Thread& t, uintptr_t address, size_t bytes, Access how, const void* pc) {
    const char* verb = how == Access::Prefetch ? " prefetches " : how == Access::Read || how == Access::Matrix ? " reads " : " writes ";
    block->fail(ILLEGAL_ADDRESS, who(t) + verb + std::to_string(bytes) + " bytes at " + machine.describe(address) + " in " + source_line(pc));
}

} // namespace emu
