// What the compiler calls in checked kernels: before each load and store (-fsanitize=thread), and where an index, a shift or
// an alignment is wrong (-fsanitize=bounds,shift-exponent,alignment). No sanitizer's runtime is involved.
#include "checker.h"

#define HOOK extern "C" __attribute__((visibility("default")))

using namespace emu;

static inline void check(void* p, size_t bytes, Access how, const void* pc) {
    Block* block = running();
    if (block && block->launch->checker) block->launch->checker->access(reinterpret_cast<uintptr_t>(p), bytes, how, pc);
}

// Whether an address is aligned is -fsanitize=alignment's to say, so the unaligned hooks are the same.
#define ACCESS(size)                                                                                            \
    HOOK void __tsan_read##size(void* p) { check(p, size, Access::Read, __builtin_return_address(0)); }          \
    HOOK void __tsan_write##size(void* p) { check(p, size, Access::Write, __builtin_return_address(0)); }        \
    HOOK void __tsan_unaligned_read##size(void* p) { check(p, size, Access::Read, __builtin_return_address(0)); } \
    HOOK void __tsan_unaligned_write##size(void* p) { check(p, size, Access::Write, __builtin_return_address(0)); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
HOOK void __tsan_read_range(void* p, size_t bytes) { check(p, bytes, Access::Read, __builtin_return_address(0)); }
HOOK void __tsan_write_range(void* p, size_t bytes) { check(p, bytes, Access::Write, __builtin_return_address(0)); }
HOOK void __tsan_init() {}

HOOK void emu_publish(const void* p) {
    Block* block = running();
    if (block && block->launch->checker) block->launch->checker->publish(p);
}

HOOK void emu_prefetch(const void* p, const void* pc) { check(const_cast<void*>(p), 1, Access::Prefetch, pc); }

HOOK void emu_depend_wait() { static_cast<Thread*>(emu_self)->depends = false; }

// The first words of what GCC passes to each handler.
struct Location {
    const char* file;
    unsigned line, column;
};
struct Mismatch {
    Location at;
    const void* type;
    unsigned char log_alignment;
};

[[noreturn]] static void fail(int code, const Location& at, const std::string& what) {
    Block& b = *running();
    b.fail(code, who(*static_cast<Thread*>(emu_self)) + " " + what + " in " + where({at.file, static_cast<int>(at.line)}));
}
HOOK void __ubsan_handle_out_of_bounds(const Location* at, intptr_t index) {
    fail(ILLEGAL_ADDRESS, *at, "uses index " + std::to_string(index) + " outside of an array");
}
HOOK void __ubsan_handle_type_mismatch_v1(const Mismatch* m, uintptr_t address) {
    fail(MISALIGNED, m->at, "needs an address that is a multiple of " + std::to_string(1 << m->log_alignment) + ", has " + describe_address(address));
}
HOOK void __ubsan_handle_shift_out_of_bounds(const Location* at, uintptr_t, intptr_t distance) {
    fail(LAUNCH_FAILED, *at, "shifts by " + std::to_string(distance) + " bits");
}
