// The kernels of one library: the build script puts an entry for each into the section `kernels`.
#include "abi.h"

extern "C" {
extern const emu::Kernel __start_kernels[] __attribute__((weak, visibility("hidden")));
extern const emu::Kernel __stop_kernels[] __attribute__((weak, visibility("hidden")));

__attribute__((visibility("default"))) const emu::Kernel* emu_kernels(size_t* count) {
    *count = static_cast<size_t>(__stop_kernels - __start_kernels);
    return __start_kernels;
}
}
