#include "block.h"

#include <string.h>
#include <sys/mman.h>

#include <memory>
#include <mutex>

#include "checker.h"
#include "machine.h"

// Saves the callee-saved registers, changes stacks, restores them. It returns by `ret`: where all fibers wait at the same
// place, the return predictor is right.
asm(R"(
    .text
    .p2align 4
    .hidden emu_switch
    .globl emu_switch
    .type emu_switch, @function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emu_switch, .-emu_switch
)");
extern "C" void emu_switch(void** save, void* load);

thread_local emu::Lane* emu_self __attribute__((tls_model("initial-exec"))) = nullptr;

namespace emu {

static inline Thread& self() { return *static_cast<Thread*>(emu_self); }

static std::mutex pool_lock;
static std::vector<std::unique_ptr<Block>> pool;

Fault run(const Launch& launch) {
    watch_faults();
    std::unique_ptr<Block> block;
    {
        std::lock_guard<std::mutex> guard(pool_lock);
        if (!pool.empty()) block = std::move(pool.back()), pool.pop_back();
    }
    if (!block) block = std::make_unique<Block>();
    Fault fault;
    block->run(launch, fault);
    std::lock_guard<std::mutex> guard(pool_lock);
    pool.push_back(std::move(block));
    return fault;
}

static unsigned char* reserve(size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    return static_cast<unsigned char*>(p);
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

Block::Block() : threads(MAX_THREADS), warps(MAX_THREADS / 32), ring(MAX_THREADS, threads.data()), shuffled(MAX_THREADS) {
    stacks = reserve(STACK_BYTES * MAX_THREADS);
    arena = reserve(ARENA_BYTES + PAGE);
    for (size_t i = 0; i < MAX_THREADS; i++) mprotect(stacks + i * STACK_BYTES, PAGE, PROT_NONE);
    mprotect(arena + ARENA_BYTES, PAGE, PROT_NONE);
}

Block::~Block() {
    munmap(stacks, STACK_BYTES * MAX_THREADS);
    munmap(arena, ARENA_BYTES + PAGE);
}

uint64_t Block::draw() {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return random;
}

void Block::run(const Launch& l, Fault& out) {
    launch = &l;
    random = l.seed * 0x9e3779b97f4a7c15ull | 1;
    shared.clear();
    static_bytes = static_end = 0;
    // The dynamic part ends where the arena ends, at an unmapped page.
    dynamic = arena + ARENA_BYTES - round_up(l.shared, 16);
    fault = Fault();
    trap = {};
    if (l.checker) l.checker->begin(*this);
    const uint64_t blocks = l.grid.count(), stride = l.order == Order::Random && blocks > 2 ? draw() % blocks : 0;
    for (uint64_t i = 0; i < blocks && !fault.code; i++) {
        // A random order of blocks is a random rotation, backwards half of the time: enough to break any assumed order.
        uint64_t n = (i + stride) % blocks;
        if (l.order == Order::Reverse || (l.order == Order::Random && l.seed & 1)) n = blocks - 1 - n;
        if (l.ends && n >= l.ends && n + l.ends < blocks) continue;
        serial = n;
        start({static_cast<unsigned>(n % l.grid.x), static_cast<unsigned>(n / l.grid.x % l.grid.y),
               static_cast<unsigned>(n / l.grid.x / l.grid.y)});
        next(&main_stack);
        if (trap.thread) report_trap();
    }
    out = fault;
}

void Block::start(Dim index) {
    const unsigned n = static_cast<unsigned>(launch->block.count());
    memset(dynamic, 0xff, launch->shared);
    for (const SharedArray& a : shared) memset(a.begin, 0xff, a.bytes);
    head = tail = 0;
    alive = n;
    at_barrier = 0;
    vote = 0;
    for (unsigned i = 0; i < n; i++) {
        Thread& t = threads[i];
        Warp& w = warps[i / 32];
        if (i % 32 == 0) w.of = this, w.lanes = &t, w.exists = w.arrived = w.exited = 0, w.clock = 0;
        w.exists |= 1u << i % 32;
        const Dim b = launch->block;
        const unsigned row = b.x == n ? 0 : i / b.x; // most blocks are one row
        const unsigned place[12] = {i - row * b.x, row % b.y, row / b.y, index.x, index.y, index.z, b.x, b.y, b.z,
                                    launch->grid.x, launch->grid.y, launch->grid.z};
        memcpy(static_cast<Lane*>(&t), place, sizeof place);
        t.warp = &w, t.index = i;
        t.done = false, t.depends = launch->dependent, t.group = 0;
        t.copies.clear();
        // Stacks that begin at the same place of a page would fight for the same lines of the L1 cache.
        void** top = reinterpret_cast<void**>(stacks + (i + 1) * STACK_BYTES - 64 - (i & 63) * 192);
        *--top = nullptr;
        *--top = reinterpret_cast<void*>(enter);
        t.stack_pointer = top - 6;
        shuffled[i] = &t;
    }
    if (launch->order == Order::Random)
        for (unsigned i = n; i > 1; i--) std::swap(shuffled[i - 1], shuffled[draw() % i]);
    for (unsigned i = 0; i < n; i++) push(shuffled[launch->order == Order::Reverse ? n - 1 - i : i]);
    if (launch->checker) launch->checker->begin_block();
}

// Changes to the next thread that can run; the caller's place is kept in `save`.
void Block::next(void** save) {
    if (head == tail) {
        if (alive) deadlock();
        emu_self = nullptr;
        emu_switch(save, main_stack);
        return;
    }
    // Stacks and threads of a block are more than the cache next to the processor holds.
    Thread* const* const at = ring.data();
    __builtin_prefetch(at[(head + 2) & (MAX_THREADS - 1)]);
    const char* stack = static_cast<const char*>(at[(head + 1) & (MAX_THREADS - 1)]->stack_pointer);
    __builtin_prefetch(stack);
    __builtin_prefetch(stack + 64);
    Thread* to = at[head++ & (MAX_THREADS - 1)];
    emu_self = to;
    emu_switch(save, to->stack_pointer);
}

void Block::enter() {
    Thread& t = self();
    t.block_running().launch->kernel->run(t.block_running().launch->params);
    t.block_running().exit(t);
}

void Block::exit(Thread& t) {
    t.done = true;
    if (t.depends)
        fail(LAUNCH_FAILED, who(t) + " returned without depend_wait: the kernels after this one take it that those before it have ended");
    if (t.warp->arrived)
        fail(LAUNCH_FAILED, who(t) + " returned from the kernel while lanes of its warp wait in " + where(t.warp->site));
    if (at_barrier) fail(LAUNCH_FAILED, who(t) + " returned from the kernel while others wait at the barrier in " + where(barrier_site));
    t.warp->exited |= 1u << t.lane();
    alive--;
    void* never;
    next(&never);
}

void Block::fail(int code, const std::string& report) {
    fault = {code, std::string("kernel ") + launch->kernel->name + ": " + report};
    leave();
}

void Block::leave() {
    emu_self = nullptr;
    void* never;
    emu_switch(&never, main_stack);
    __builtin_unreachable();
}

void Block::trapped(uintptr_t address, const void* pc) {
    trap = {&self(), address, pc};
    leave();
}

void Block::report_trap() {
    const uintptr_t stack = reinterpret_cast<uintptr_t>(stacks) + trap.thread->index * STACK_BYTES;
    const bool overrun = trap.address - stack < PAGE;
    fault = {ILLEGAL_ADDRESS, std::string("kernel ") + launch->kernel->name + ": " + who(*trap.thread) + " touches " +
                                  (overrun ? "the end of the thread's stack of 64 KiB" : describe_address(trap.address)) + " in " + source_line(trap.pc)};
}

void Block::deadlock() {
    std::string list;
    const char* what = nullptr;
    Site site{nullptr, 0};
    for (unsigned i = 0; i < launch->block.count(); i++) {
        const Thread& t = threads[i];
        const Warp& w = *t.warp;
        const bool in_warp = w.arrived >> t.lane() & 1;
        const char* waits = in_warp ? "a warp operation" : barrier_name;
        const Site at = in_warp ? w.site : barrier_site;
        if (t.done || (waits == what && at.file == site.file && at.line == site.line)) continue;
        what = waits, site = at;
        list += "\n  " + who(t) + " waits at " + what + " in " + where(site);
    }
    fail(LAUNCH_FAILED, "no thread can go on:" + list);
}

void Block::diverged(const Thread& t, Site site) {
    if (!t.warp->arrived) fail(LAUNCH_FAILED, who(t) + " calls " + where(site) + ", but other lanes of its warp have returned");
    fail(LAUNCH_FAILED, "divergent warp: " + who(t) + " is in " + where(site) + ", others wait in " + where(t.warp->site));
}

void Block::misplaced(const Thread& t, Site site) {
    if (alive < launch->block.count())
        fail(LAUNCH_FAILED, who(t) + " reaches the barrier in " + where(site) + ", but other threads of its block have returned");
    if (t.warp->arrived)
        fail(LAUNCH_FAILED, who(t) + " reaches the barrier in " + where(site) + ", but lanes of its warp wait in " + where(t.warp->site));
    fail(LAUNCH_FAILED, "divergent barrier: " + who(t) + " is at " + where(site) + ", others wait in " + where(barrier_site));
}

static bool same(Site a, Site b) { return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file)); }

int Block::barrier(int ballot, Site site, const char* what) {
    Thread& t = self();
    const unsigned n = static_cast<unsigned>(launch->block.count());
    if (!at_barrier) barrier_site = site, barrier_name = what;
    if (alive < n || t.warp->arrived || !same(barrier_site, site)) misplaced(t, site);
    vote |= ballot;
    if (++at_barrier < n) {
        wait(t);
        return voted;
    }
    voted = vote;
    at_barrier = vote = 0;
    if (launch->checker) launch->checker->barrier();
    const Order order = launch->order;
    if (order == Order::Random)
        for (unsigned i = n; i > 1; i--) std::swap(shuffled[i - 1], shuffled[draw() % i]);
    for (unsigned i = 0; i < n; i++) {
        Thread* other = order == Order::Random ? shuffled[i] : &threads[order == Order::Reverse ? n - 1 - i : i];
        if (other != &t) push(other);
    }
    return voted;
}

void Block::release(Warp& w, Thread& last) {
    const Order order = launch->order;
    // A warp that goes first runs on to its next barrier, which is soonest: what its lanes use stays in the cache. One that
    // goes last lets the others catch up.
    const bool first = order == Order::Forward || (order == Order::Random && draw() & 1);
    const unsigned mask = order == Order::Random ? draw() : 31;
    for (unsigned i = 0; i < 32; i++) {
        const unsigned lane = (i ^ mask) & 31;
        if (!(w.exists >> lane & 1) || w.lanes + lane == &last) continue;
        if (first) push_front(w.lanes + lane);
        else push(w.lanes + lane);
    }
}

} // namespace emu

using namespace emu;

extern "C" {

uint64_t emu_warp(Op op, uint64_t value, int argument, Site site) {
    Thread& t = self();
    Warp& w = *t.warp;
    const unsigned lane = t.lane();
    w.values[lane] = value;
    w.arguments[lane] = argument;
    w.pcs[lane] = __builtin_return_address(0);
    if (!w.arrived) {
        if (w.exited) w.of->diverged(t, site);
        w.op = op;
        w.site = site;
    } else if (w.op != op || w.site.line != site.line || w.site.file != site.file) {
        w.of->diverged(t, site);
    }
    w.arrived |= 1u << lane;
    if (w.arrived != w.exists) {
        w.of->wait(t);
        return w.values[lane];
    }
    w.arrived = 0;
    // Only __syncwarp orders memory; the other operations do not say that they do.
    if (op != Op::Sync) collective(op, w);
    else if (w.of->launch->checker) w.of->launch->checker->warp_sync(w);
    w.of->release(w, t);
    return w.values[lane];
}

void emu_block_sync(Site site) { self().block_running().barrier(0, site, "the barrier"); }

void* emu_dynamic_shared() { return self().block_running().dynamic; }

void* emu_shared(const void* key, size_t bytes, const char* name) {
    Block& b = self().block_running();
    for (const SharedArray& a : b.shared)
        if (a.key == key) return a.begin;
    const size_t begin = round_up(b.static_end, 16);
    b.static_bytes = round_up(b.static_bytes, 16) + bytes;
    const size_t total = b.static_bytes + b.launch->shared;
    if (b.static_bytes > 48 << 10 || total > b.launch->shared_limit)
        b.fail(LAUNCH_OUT_OF_RESOURCES, "shared memory: " + std::to_string(b.static_bytes) + " bytes static and " +
                                           std::to_string(b.launch->shared) + " dynamic with " + name + ", this GPU allows " + std::to_string(b.launch->shared_limit));
    b.static_end = begin + bytes + 64; // the gap belongs to nobody
    b.shared.push_back({key, name, b.arena + begin, bytes});
    memset(b.arena + begin, 0xff, bytes);
    return b.arena + begin;
}

int emu_last_block(unsigned* ticket, unsigned blocks, Site site) {
    Thread& t = self();
    Block& b = t.block_running();
    b.barrier(0, site, "last_block");
    int last = 0;
    if (t.index == 0) {
        emu_atomic_access(ticket, sizeof *ticket, __builtin_return_address(0));
        last = (*ticket)++ == blocks - 1;
        if (last) *ticket = 0;
        if (b.launch->checker) b.launch->checker->arrive(ticket, last);
    }
    return b.barrier(last, site, "last_block");
}

void emu_copy_async(void* shared, const void* global, int valid) {
    Thread& t = self();
    Block& b = t.block_running();
    if (reinterpret_cast<uintptr_t>(shared) % 16 || reinterpret_cast<uintptr_t>(global) % 16)
        b.fail(MISALIGNED, who(t) + " copies 16 bytes between addresses that are not multiples of 16 in " +
                               source_line(__builtin_return_address(0)));
    if (Checker* checker = b.launch->checker) {
        if (valid) checker->access(reinterpret_cast<uintptr_t>(global), 16, Access::Read, __builtin_return_address(0));
        checker->access(reinterpret_cast<uintptr_t>(shared), 16, Access::Copy, __builtin_return_address(0));
    }
    memset(shared, 0xff, 16); // garbage until somebody waits
    t.copies.push_back({shared, global, valid, t.group});
}

void emu_copy_commit() { self().group++; }

void emu_copy_wait(int pending) {
    Thread& t = self();
    size_t kept = 0;
    for (const AsyncCopy& c : t.copies) {
        if (c.group + static_cast<unsigned>(pending) >= t.group) {
            t.copies[kept++] = c;
            continue;
        }
        if (c.valid) memcpy(c.shared, c.global, 16);
        else memset(c.shared, 0, 16);
        if (t.block_running().launch->checker) t.block_running().launch->checker->copy_ends(c.shared, __builtin_return_address(0));
    }
    t.copies.resize(kept);
}

void emu_atomic_access(void* p, size_t bytes, const void* pc) {
    Thread& t = self();
    if (reinterpret_cast<uintptr_t>(p) % bytes)
        t.block_running().fail(MISALIGNED, who(t) + " uses an atomic at a misaligned address in " + source_line(pc));
    if (Checker* c = t.block_running().launch->checker) c->access(reinterpret_cast<uintptr_t>(p), bytes, Access::Atomic, pc);
}
}
