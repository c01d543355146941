// KERNEL(name, threads) makes a kernel known under its name. Its one parameter, a struct by value, gives the type.
#pragma once
#include "abi.h"

namespace emu {

template <auto KERNEL> struct Thunk;
template <class P, void (*KERNEL)(P)> struct Thunk<KERNEL> {
    static constexpr size_t BYTES = sizeof(P);
    static_assert(sizeof(P) <= 4096, "parameters of a kernel take at most 4 KiB");
    static_assert(__is_trivially_copyable(P), "parameters of a kernel are plain data");
    __attribute__((no_sanitize("thread"))) static void run(const void* params) { KERNEL(*static_cast<const P*>(params)); }
};

} // namespace emu

#define KERNEL(name, threads) \
    __attribute__((section("kernels"), used)) static const emu::Kernel name##_entry = {#name, emu::Thunk<&name>::BYTES, threads, emu::Thunk<&name>::run};
