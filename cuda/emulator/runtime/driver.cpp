// Initialisation, devices, contexts, error names.
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <unordered_set>

namespace emu {

static std::mutex handles_lock;
static std::unordered_set<void*>& handles() {
    static auto* set = new std::unordered_set<void*>;
    return *set;
}

Handle::Handle(Kind k, Machine& m) : kind(k), machine(&m) {
    std::lock_guard<std::mutex> guard(handles_lock);
    handles().insert(this);
}
Handle::~Handle() {
    std::lock_guard<std::mutex> guard(handles_lock);
    handles().erase(this);
}
Handle* alive(void* handle, Kind kind) {
    std::lock_guard<std::mutex> guard(handles_lock);
    if (!handles().count(handle)) return nullptr;
    Handle* h = static_cast<Handle*>(handle);
    return h->kind == kind ? h : nullptr;
}

static thread_local Machine* entered_machine;
static thread_local Context* current_context;

Machine& entered() {
    if (entered_machine) return *entered_machine;
    static Machine* process = [] {
        Settings settings;
        std::vector<Failure> failures;
        const char* text = getenv("QRUN_EMULATOR");
        if (text && !settings.parse(text, failures)) fprintf(stderr, "QRUN_EMULATOR=%s is not understood\n", text), abort();
        auto* m = new Machine(settings);
        m->failures = failures;
        return m;
    }();
    return *process;
}

Context*& current() { return current_context; }
Machine& implied() { return current_context ? *current_context->machine : entered(); }

static Context& primary(Machine& m, int device) {
    m.primary.resize(static_cast<size_t>(m.settings.devices));
    auto& c = m.primary[static_cast<size_t>(device)];
    if (!c) c = std::make_unique<Context>(m, device);
    return *c;
}

} // namespace emu

using namespace emu;

// Where a thread's calls go; what it was before, for `emu_leave`.
struct Before {
    Machine* machine;
    Context* context;
};
extern "C" __attribute__((visibility("default"))) void* emu_enter(void* machine) {
    auto* before = new Before{entered_machine, current_context};
    entered_machine = static_cast<Machine*>(machine);
    current_context = nullptr;
    return before;
}
extern "C" __attribute__((visibility("default"))) void emu_leave(void* handle) {
    auto* before = static_cast<Before*>(handle);
    entered_machine = before->machine;
    current_context = before->context;
    delete before;
}

API cuInit(unsigned) {
    return call("cuInit", [](Machine& m) { return m.settings.devices ? SUCCESS : NO_DEVICE; });
}
API cuDriverGetVersion(int* version) {
    return call("cuDriverGetVersion", [&](Machine& m) { return *version = m.settings.driver, 0; });
}
API cuDeviceGetCount(int* count) {
    return call("cuDeviceGetCount", [&](Machine& m) { return *count = m.settings.devices, 0; });
}

// A call about a device by ordinal.
template <class F> static int device_call(const char* name, int device, F body) {
    return call(name, [&](Machine& m) { return device < 0 || device >= m.settings.devices ? INVALID_DEVICE : body(m); });
}

API cuDeviceGet(int* device, int ordinal) {
    return device_call("cuDeviceGet", ordinal, [&](Machine&) { return *device = ordinal, 0; });
}
API cuDeviceGetName(char* name, int length, int device) {
    return device_call("cuDeviceGetName", device, [&](Machine& m) { return snprintf(name, static_cast<size_t>(length), "%s", m.gpu.name), 0; });
}
API cuDeviceTotalMem_v2(size_t* bytes, int device) {
    return device_call("cuDeviceTotalMem", device, [&](Machine& m) { return *bytes = m.settings.memory, 0; });
}
static int uuid(const char* name, unsigned char* uuid, int device) {
    return device_call(name, device, [&](Machine&) {
        for (int i = 0; i < 16; i++) uuid[i] = static_cast<unsigned char>(17 * i + device);
        return 0;
    });
}
API cuDeviceGetUuid(unsigned char* out, int device) { return uuid("cuDeviceGetUuid", out, device); }
API cuDeviceGetUuid_v2(unsigned char* out, int device) { return uuid("cuDeviceGetUuid", out, device); }
API cuDeviceGetPCIBusId(char* text, int length, int device) {
    return device_call("cuDeviceGetPCIBusId", device, [&](Machine&) { return snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", device + 1), 0; });
}
API cuDeviceGetAttribute(int* value, int attribute, int device) {
    return device_call("cuDeviceGetAttribute", device, [&](Machine& m) {
        const Gpu& g = m.gpu;
        const int sm = device == 0 && m.settings.first ? m.settings.first : m.settings.sm;
        const std::map<int, int> values = {
            {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, {8, 48 << 10}, {9, 64 << 10}, {10, 32},
            {11, 0x7fffffff}, {12, 65536}, {13, g.clock}, {14, 512}, {15, 1}, {16, g.multiprocessors}, {19, 1}, {31, 1}, {33, device + 1},
            {36, g.memory_clock}, {37, g.bus}, {38, g.l2}, {39, g.threads}, {40, 2}, {41, 1}, {75, sm / 10}, {76, sm % 10},
            {78, 1}, {79, 1}, {80, 1}, {81, g.shared}, {82, 65536}, {83, 1}, {90, 1}, {91, 1}, {95, 1}, {97, g.shared_per_block}, {99, 1},
            {106, g.sm == 75 ? 16 : 32}, {108, g.l2 * 3 / 4}, {111, g.sm == 75 ? 0 : 1024}, {113, 1}, {115, 0},
        };
        const auto at = values.find(attribute);
        *value = at == values.end() ? 0 : at->second;
        return attribute > 0 && attribute < 160 ? SUCCESS : Status(INVALID_VALUE);
    });
}

API cuDevicePrimaryCtxRetain(void** context, int device) {
    return device_call("cuDevicePrimaryCtxRetain", device, [&](Machine& m) {
        Context& c = primary(m, device);
        c.users++, m.contexts++;
        return *context = &c, 0;
    });
}
API cuDevicePrimaryCtxRelease_v2(int device) {
    Machine& m = implied();
    bool last = false;
    const int status = call("cuDevicePrimaryCtxRelease", m, [&](Machine&) {
        if (device < 0 || device >= m.settings.devices || !primary(m, device).users) return INVALID_CONTEXT;
        primary(m, device).users--;
        last = !--m.contexts && m.dropped;
        return SUCCESS;
    });
    if (last) delete &m;
    return status;
}
API cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    return device_call("cuDevicePrimaryCtxGetState", device, [&](Machine& m) { return *flags = 0, *active = primary(m, device).users > 0, 0; });
}
API cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
    return device_call("cuDevicePrimaryCtxSetFlags", device, [](Machine&) { return 0; });
}

API cuCtxSetCurrent(void* context) {
    Context* c = context ? as<Context>(context) : nullptr;
    if (context && !c) return INVALID_CONTEXT;
    return call("cuCtxSetCurrent", c ? *c->machine : implied(), [&](Machine&) { return current_context = c, 0; });
}
API cuCtxGetCurrent(void** context) {
    return call("cuCtxGetCurrent", [&](Machine&) { return *context = current_context, 0; });
}
// A call that needs a current context.
template <class F> static int context_call(const char* name, F body) {
    return call(name, [&](Machine& m) { return current_context ? body(m) : INVALID_CONTEXT; });
}
API cuCtxGetDevice(int* device) {
    return context_call("cuCtxGetDevice", [&](Machine&) { return *device = current_context->device, 0; });
}
API cuCtxSetFlags(unsigned) { return context_call("cuCtxSetFlags", [](Machine&) { return 0; }); }
API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    return context_call("cuCtxGetStreamPriorityRange", [&](Machine&) { return *least = 0, *greatest = -5, 0; });
}
API cuCtxGetLimit(size_t* value, int) { return context_call("cuCtxGetLimit", [&](Machine&) { return *value = 1024, 0; }); }
API cuCtxSetLimit(int, size_t) { return context_call("cuCtxSetLimit", [](Machine&) { return 0; }); }
API cuProfilerStart() { return context_call("cuProfilerStart", [](Machine&) { return 0; }); }
API cuProfilerStop() { return context_call("cuProfilerStop", [](Machine&) { return 0; }); }

static const std::map<int, const char*> NAMES = {
    {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {4, "CUDA_ERROR_DEINITIALIZED"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {218, "CUDA_ERROR_INVALID_PTX"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {400, "CUDA_ERROR_INVALID_HANDLE"},
    {401, "CUDA_ERROR_ILLEGAL_STATE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"}, {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"}, {714, "CUDA_ERROR_HARDWARE_STACK_ERROR"}, {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}, {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"}, {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"}, {999, "CUDA_ERROR_UNKNOWN"},
};

API cuGetErrorName(int code, const char** name) {
    const auto at = NAMES.find(code);
    *name = at == NAMES.end() ? nullptr : at->second;
    return *name ? SUCCESS : Status(INVALID_VALUE);
}
// For the code of a kernel that failed: the whole report.
API cuGetErrorString(int code, const char** text) {
    Machine& m = implied();
    std::lock_guard<std::recursive_mutex> guard(m.lock);
    if (code && !m.report.empty() && code == m.report_code) {
        m.kept.push_back(m.report);
        return *text = m.kept.back().c_str(), 0;
    }
    return cuGetErrorName(code, text);
}

API cuGetProcAddress_v2(const char* symbol, void** address, int, uint64_t, int* status) {
    for (const char* version : {"_v2", ""})
        if ((*address = dlsym(RTLD_DEFAULT, (std::string(symbol) + version).c_str()))) break;
    if (status) *status = *address ? 0 : 1;
    return *address ? SUCCESS : NOT_FOUND;
}

API cuDeviceGetDefaultMemPool(void**, int) { return NOT_SUPPORTED; } // attribute 115 says that there are none
