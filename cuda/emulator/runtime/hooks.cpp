// What the compiler calls in checked kernels.
#include "checker.h"

#define HOOK extern "C" __attribute__((visibility("default")))

HOOK void __tsan_init() {}
#define ACCESS(size)                                                             \
    HOOK void __tsan_read##size(void*) {} HOOK void __tsan_write##size(void*) {} \
    HOOK void __tsan_unaligned_read##size(void*) {} HOOK void __tsan_unaligned_write##size(void*) {}
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
HOOK void __tsan_read_range(void*, size_t) {}
HOOK void __tsan_write_range(void*, size_t) {}
HOOK void __ubsan_handle_out_of_bounds(void*, uintptr_t) {}
HOOK void __ubsan_handle_type_mismatch_v1(void*, uintptr_t) {}
HOOK void __ubsan_handle_shift_out_of_bounds(void*, uintptr_t, uintptr_t) {}
