// Modules, functions, occupancy, launches.
#include <stdlib.h>

#include <algorithm>

#include "checker.h"
#include "driver.h"
#include "interpreter.h"

using namespace emu;

namespace {

struct Image {
    int sm, status;
};

// What a cubin or PTX says it is for, and whether this machine runs it. A cubin runs on its own major version, same or later
// minor; PTX on anything not older, if the driver knows its version.
Image read_image(const Machine& m, const char* image) {
    const int sm = m.settings.sm;
    if (memcmp(image, "\177ELF", 4) == 0) {
        uint32_t flags;
        memcpy(&flags, image + 48, 4);
        const int built = static_cast<int>(image[8] >= 8 ? flags >> 8 & 255 : flags & 255);
        return {built, built / 10 == sm / 10 && built <= sm ? SUCCESS : NO_BINARY_FOR_GPU};
    }
    const char *target = strstr(image, ".target sm_"), *version = strstr(image, ".version ");
    if (!target || !version) return {0, INVALID_IMAGE};
    // PTX 8.0 came with CUDA 12.0, 7.0 with 11.0.
    const int built = atoi(target + 11), known = (m.settings.driver / 1000 - 4) * 10 + m.settings.driver % 1000 / 10;
    const int needed = atoi(version + 9) * 10 + atoi(strchr(version + 9, '.') + 1);
    return {built, built > sm ? NO_BINARY_FOR_GPU : needed > known ? UNSUPPORTED_PTX_VERSION : SUCCESS};
}

// Takes a text that the interpreter has made.
std::string take(char* text) {
    const std::string taken = text ? text : "";
    free(text);
    return taken;
}

// How long a cubin is: the driver is given its address alone. Its tables of sections and of segments lie behind all else.
uint64_t elf_bytes(const char* image) {
    const auto table = [image](int offset, int size, int count) {
        uint64_t begin;
        uint16_t one, all;
        memcpy(&begin, image + offset, 8), memcpy(&one, image + size, 2), memcpy(&all, image + count, 2);
        return begin + uint64_t(one) * all;
    };
    return std::max(table(32, 54, 56), table(40, 58, 60));
}

// The image as the interpreter reads it.
int interpretable(Machine& m, const char* image, int sm, const void*& code) {
    const auto refuse = [&m](int status, const std::string& why) {
        m.report = why;
        return m.report_code = status;
    };
    const bool sass = m.settings.code == Program::Sass, elf = memcmp(image, "\177ELF", 4) == 0;
    const std::string setting = sass ? "code=sass: " : "code=ptx: ";
    if (!interpreter())
        return refuse(NOT_SUPPORTED, setting + "this process has the emulated driver alone, and what executes shipped code is in the "
                                               "package qrun-emulator: without it, code=source");
    if (elf && !sass)
        return refuse(NO_BINARY_FOR_GPU, setting + "the module is machine code for sm_" + std::to_string(sm) +
                                             ", and only PTX is executed: QRUN_KERNELS=compute_80 has qrun load it");
    if (!elf && sass)
        return refuse(NO_BINARY_FOR_GPU, setting + "the module is PTX, and only machine code is executed: QRUN_KERNELS=sm_" +
                                             std::to_string(m.settings.sm) + " has qrun load it");
    char* error = nullptr;
    code = interpreter()->read(image, elf ? elf_bytes(image) : strlen(image), &error);
    return code ? int(SUCCESS) : refuse(elf ? INVALID_IMAGE : INVALID_PTX, setting + take(error));
}

int load(const char* name, void** module, const void* image) {
    return call(name, [&](Machine& m) {
        if (!current()) return INVALID_CONTEXT;
        const char* text = static_cast<const char*>(image);
        const Image i = read_image(m, text);
        const void* code = nullptr;
        const int status = i.status == SUCCESS && m.settings.code != Program::Source ? interpretable(m, text, i.sm, code) : i.status;
        if (status == SUCCESS) *module = new Module(m, i.sm, code);
        return Status(status);
    });
}

struct Plan {
    Dim grid, block;
    unsigned shared;
    bool dependent = false;
};

// What the driver refuses, with the reason.
int refuse(Machine& m, const Function& f, const Plan& p, const std::string& why, int code) {
    m.report = std::string("launch of ") + f.kernel.name + " with " + std::to_string(p.grid.count()) + " blocks of " +
               std::to_string(p.block.count()) + " threads and " + std::to_string(p.shared) + " bytes of shared memory: " + why;
    return m.report_code = code;
}

int check(Machine& m, const Function& f, const Plan& p) {
    const Dim &g = p.grid, &b = p.block;
    const uint64_t threads = b.count();
    if (!g.count() || g.y > 65535 || g.z > 65535 || g.x > 0x7fffffff) return refuse(m, f, p, "no such grid", INVALID_VALUE);
    if (!threads || threads > 1024 || b.x > 1024 || b.y > 1024 || b.z > 64) return refuse(m, f, p, "no such block", INVALID_VALUE);
    if (threads > f.kernel.threads)
        return refuse(m, f, p, "its launch bound is " + std::to_string(f.kernel.threads) + " threads", INVALID_VALUE);
    if (p.dependent && m.settings.sm < 90) return refuse(m, f, p, "kernels wait for others from SM 9.0 on", NOT_SUPPORTED);
    if (p.shared > static_cast<unsigned>(f.max_dynamic))
        return refuse(m, f, p, "the function's attribute allows " + std::to_string(f.max_dynamic) + " bytes", INVALID_VALUE);
    return SUCCESS;
}

unsigned limit(const Machine& m) { return static_cast<unsigned>(m.gpu.shared_per_block); }

char* region(void* machine, uint64_t address, uint64_t* begin, uint64_t* end) {
    auto& m = *static_cast<Machine*>(machine);
    const Region* r = m.find(address, true);
    if (!r) return strdup(m.describe(address).c_str());
    *begin = r->begin, *end = r->end;
    return nullptr;
}

void published(void* machine, const void* p) { static_cast<Machine*>(machine)->publish(p); }

void traffic(void* machine, uint64_t begin, uint64_t read, uint64_t written) {
    Region* r = static_cast<Machine*>(machine)->find(begin, true);
    if (r) r->read += read, r->written += written;
}

Fault interpret(Machine& m, const Function& f, const Plan& p, const std::vector<uint64_t>& params) {
    const Dim &g = p.grid, &b = p.block;
    const Interpretation launch = {f.code, params.data(), f.kernel.params, {g.x, g.y, g.z}, {b.x, b.y, b.z}, p.shared, limit(m),
                                   static_cast<uint32_t>(m.settings.order), m.settings.approximation, p.dependent, m.settings.seed, m.launches, m.settings.blocks,
                                   m.counts, &m, region, published, traffic};
    char* report = nullptr;
    const int code = interpreter()->run(&launch, &report);
    return {code, take(report)};
}

int execute(Machine& m, const Function& f, const Plan& p, const std::vector<uint64_t>& params) {
    m.counters.launches[f.kernel.name]++;
    m.launches++;
    if (!m.settings.execute) return SUCCESS;
    if (m.settings.checked && !m.checker && !f.code) m.checker = std::make_unique<Checker>(m);
    const uint64_t seed = m.settings.seed + m.launches;
    const Fault fault = f.code ? interpret(m, f, p, params)
                               : run({&f.kernel, params.data(), p.grid, p.block, p.shared, limit(m), m.settings.order, seed, m.checker.get(), m.settings.blocks, p.dependent});
    if (!fault.code) return SUCCESS;
    m.report = fault.report;
    m.report_code = fault.code;
    return m.sticky = fault.code;
}

// Device memory that the code of a kernel takes: some ten KB, in the driver's pages.
constexpr uint64_t CODE_BYTES = 64 << 10;

int launch(const char* name, void* function, const Plan& plan, void* stream, void** params, void** extra) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return with<Function>(name, function, [&](Function& f) {
        Machine& m = *f.machine;
        if (s->machine != &m) return int(INVALID_HANDLE);
        if (const int status = check(m, f, plan)) return status;
        // As a driver does by itself: loaded when it is first needed.
        if (!f.loaded && !m.charge(CODE_BYTES)) return int(OUT_OF_MEMORY);
        f.loaded = true;
        const size_t bytes = f.kernel.params;
        std::vector<uint64_t> copy((bytes + 15) / 8);
        if (params) {
            memcpy(copy.data(), params[0], bytes);
        } else {
            const void* buffer = nullptr;
            size_t size = 0;
            // CU_LAUNCH_PARAM_BUFFER_POINTER is 1, _SIZE 2, _END 0.
            for (void** e = extra; e && *e; e += 2) (*e == reinterpret_cast<void*>(1) ? buffer = e[1] : (size = *static_cast<size_t*>(e[1]), e[1]));
            if (!buffer || size != bytes)
                return refuse(m, f, plan, "given " + std::to_string(size) + " bytes of parameters, the kernel's struct has " + std::to_string(bytes), INVALID_VALUE);
            memcpy(copy.data(), buffer, bytes);
        }
        return submit(*s, f.kernel.name, [&m, &f, plan, copy] { return execute(m, f, plan, copy); });
    });
}

struct Found {
    Kernel kernel; // without a name where there is none
    const void* code;
};

// A kernel of the module by a name that lives as long as the module: of its image alone where that is executed.
Found find(const Module& m, const char* name) {
    if (m.image) {
        uint64_t params = 0;
        uint32_t threads = 0;
        const void* code = interpreter()->kernel(m.image, name, &params, &threads);
        return {{code ? name : nullptr, params, threads, nullptr}, code};
    }
    const Kernel* k = find_kernel(m.arch, m.machine->settings.checked, name);
    return {k ? *k : Kernel{}, nullptr};
}

// Blocks per multiprocessor by threads and shared memory; registers are not known here.
int occupancy(const Function& f, int threads, size_t dynamic) {
    const Gpu& g = f.machine->gpu;
    const int by_threads = threads > 0 ? g.threads / ((threads + 31) / 32 * 32) : 0;
    const int reserved = g.sm == 75 ? 0 : 1024;
    const int by_shared = dynamic ? g.shared / static_cast<int>(dynamic + static_cast<size_t>(reserved)) : 32;
    return std::min(std::min(by_threads, by_shared), g.sm == 75 ? 16 : 32);
}

} // namespace

API cuModuleLoadData(void** module, const void* image) { return load("cuModuleLoadData", module, image); }
API cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) { return load("cuModuleLoadDataEx", module, image); }
API cuModuleUnload(void* module) {
    return with<Module>("cuModuleUnload", module, [](Module& m) {
        finish(*m.machine);
        for (const auto& f : m.functions)
            if (f.second->loaded) m.machine->used -= CODE_BYTES;
        return delete &m, 0;
    });
}
API cuModuleGetFunction(void** function, void* module, const char* name) {
    return with<Module>("cuModuleGetFunction", module, [&](Module& m) {
        auto& f = m.functions[name];
        if (!f) {
            const std::string& kept = m.functions.find(name)->first;
            const auto [kernel, code] = find(m, kept.c_str());
            if (!kernel.name) {
                m.functions.erase(name);
                return NOT_FOUND;
            }
            f = std::make_unique<Function>(*m.machine, kernel, code, m.arch);
        }
        return *function = f.get(), SUCCESS;
    });
}
API cuFuncSetAttribute(void* function, int attribute, int value) {
    return with<Function>("cuFuncSetAttribute", function, [&](Function& f) {
        if (attribute == 9) return f.carveout = value, int(SUCCESS); // preferred carve-out
        if (attribute != 8 || value < 0 || value > f.machine->gpu.shared_per_block) return int(INVALID_VALUE);
        return f.max_dynamic = value, int(SUCCESS);
    });
}
API cuFuncGetAttribute(int* value, int attribute, void* function) {
    return with<Function>("cuFuncGetAttribute", function, [&](Function& f) {
        // Maximal threads, static shared, constant, local bytes, registers, PTX and binary version, CA, dynamic shared, carve-out.
        const int values[] = {static_cast<int>(f.kernel.threads), 0, 0, 0, 32, f.arch, f.arch, 0, f.max_dynamic, f.carveout};
        return attribute < 0 || attribute > 9 ? int(INVALID_VALUE) : (*value = values[attribute], int(SUCCESS));
    });
}
API cuFuncGetName(const char** name, void* function) {
    return with<Function>("cuFuncGetName", function, [&](Function& f) { return *name = f.kernel.name, 0; });
}
API cuFuncSetCacheConfig(void* function, int) {
    return with<Function>("cuFuncSetCacheConfig", function, [](Function&) { return 0; });
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, size_t dynamic) {
    return with<Function>("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, [&](Function& f) { return *blocks = occupancy(f, threads, dynamic), 0; });
}
API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* function, int threads, size_t dynamic, unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic);
}
API cuOccupancyMaxPotentialBlockSize(int* grid, int* threads, void* function, size_t (*)(int), size_t dynamic, int limit) {
    return with<Function>("cuOccupancyMaxPotentialBlockSize", function, [&](Function& f) {
        *threads = static_cast<int>(f.kernel.threads);
        if (limit && limit < *threads) *threads = limit;
        return *grid = f.machine->gpu.multiprocessors * occupancy(f, *threads, dynamic), 0;
    });
}
API cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, void* function, int blocks, int) {
    return with<Function>("cuOccupancyAvailableDynamicSMemPerBlock", function, [&](Function& f) {
        return *bytes = static_cast<size_t>(f.machine->gpu.shared / (blocks > 0 ? blocks : 1)), 0;
    });
}

API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream,
                   void** params, void** extra) {
    return launch("cuLaunchKernel", function, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, params, extra);
}
API cuLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**) {
    return NOT_SUPPORTED; // blocks run one after another here
}
// As in cuda.h. Of the attributes only dependent launch matters here: others (clusters of one …) do not change what a kernel computes.
struct LaunchAttribute {
    int id, pad;
    int value[16];
};
struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    void* stream;
    const LaunchAttribute* attributes;
    unsigned attribute_count;
};
constexpr int PROGRAMMATIC_STREAM_SERIALIZATION = 6;

API cuLaunchKernelEx(const LaunchConfig* c, void* function, void** params, void** extra) {
    const bool dependent = std::any_of(c->attributes, c->attributes + c->attribute_count,
                                       [](const LaunchAttribute& a) { return a.id == PROGRAMMATIC_STREAM_SERIALIZATION && a.value[0]; });
    return launch("cuLaunchKernelEx", function, {{c->grid[0], c->grid[1], c->grid[2]}, {c->block[0], c->block[1], c->block[2]}, c->shared, dependent}, c->stream, params, extra);
}
