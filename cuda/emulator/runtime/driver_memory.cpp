// Memory: allocation, pinned memory, copies, fills. Every range is checked against what is allocated.
#include "driver.h"

using namespace emu;

API cuMemAlloc_v2(uintptr_t* address, size_t bytes) {
    return call("cuMemAlloc", [&](Machine& m) {
        if (!bytes) return Status(INVALID_VALUE);
        if (const int status = outside_capture(m)) return Status(status);
        *address = m.allocate(bytes);
        return *address ? SUCCESS : Status(OUT_OF_MEMORY);
    });
}
API cuMemFree_v2(uintptr_t address) {
    if (!address) return SUCCESS;
    Machine* m = machine_of(address);
    return call("cuMemFree", m ? *m : implied(), [&](Machine& machine) {
        if (const int status = outside_capture(machine)) return status;
        if (const int status = finish(machine)) return status;
        return machine.release(address) ? SUCCESS : int(INVALID_VALUE);
    });
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
    return call("cuMemGetInfo", [&](Machine& m) { return *total = m.settings.memory, *free = m.settings.memory - m.used, 0; });
}
API cuMemGetAddressRange_v2(uintptr_t* base, size_t* bytes, uintptr_t address) {
    return call("cuMemGetAddressRange", [&](Machine& m) {
        const Region* r = m.find(address, false);
        if (!r) return NOT_FOUND;
        if (base) *base = r->begin;
        if (bytes) *bytes = r->end - r->begin;
        return SUCCESS;
    });
}

static int host_alloc(const char* name, void** p, size_t bytes) {
    return call(name, [&](Machine& m) {
        if (!bytes) return Status(INVALID_VALUE);
        if (const int status = outside_capture(m)) return Status(status);
        *p = m.allocate_host(bytes);
        return *p ? SUCCESS : Status(OUT_OF_MEMORY);
    });
}
API cuMemHostAlloc(void** p, size_t bytes, unsigned) { return host_alloc("cuMemHostAlloc", p, bytes); }
API cuMemAllocHost_v2(void** p, size_t bytes) { return host_alloc("cuMemAllocHost", p, bytes); }
API cuMemFreeHost(void* p) {
    return call("cuMemFreeHost", [&](Machine& m) {
        if (const int status = finish(m)) return status;
        return m.release_host(p) ? SUCCESS : int(INVALID_VALUE);
    });
}
API cuMemHostRegister_v2(void* p, size_t bytes, unsigned) {
    return call("cuMemHostRegister", [&](Machine& m) { return m.register_host(p, bytes) ? SUCCESS : HOST_MEMORY_ALREADY_REGISTERED; });
}
API cuMemHostUnregister(void* p) {
    return call("cuMemHostUnregister", [&](Machine& m) {
        if (const int status = finish(m)) return status;
        return m.release_host(p) ? int(SUCCESS) : int(HOST_MEMORY_NOT_REGISTERED);
    });
}
API cuMemHostGetDevicePointer_v2(uintptr_t* address, void* p, unsigned) {
    return call("cuMemHostGetDevicePointer", [&](Machine& m) {
        const auto a = reinterpret_cast<uintptr_t>(p);
        return m.valid(a, 1) ? (*address = a, SUCCESS) : Status(INVALID_VALUE);
    });
}
API cuMemHostGetFlags(unsigned* flags, void*) {
    return call("cuMemHostGetFlags", [&](Machine&) { return *flags = 2, 0; });
}
// Memory type (2): 1 host, 2 device.
API cuPointerGetAttribute(void* data, int attribute, uintptr_t address) {
    return call("cuPointerGetAttribute", [&](Machine& m) {
        if (attribute != 2 || !m.valid(address, 1)) return Status(INVALID_VALUE);
        *static_cast<unsigned*>(data) = address - m.base < m.span ? 2 : 1;
        return SUCCESS;
    });
}

namespace {

enum class Direction { In, Out, Within };

struct Copy {
    const char* call;
    uintptr_t to, from;
    size_t bytes;
    Direction direction;
};

int check(Machine& m, const Copy& c) {
    const bool to = c.direction == Direction::Out || m.valid(c.to, c.bytes);
    const bool from = c.direction == Direction::In || m.valid(c.from, c.bytes);
    if (to && from) return SUCCESS;
    m.report = std::string(c.call) + " of " + std::to_string(c.bytes) + " bytes " + (to ? "from " : "to ") + m.describe(to ? c.from : c.to) + " does not fit";
    return m.report_code = INVALID_VALUE;
}

void move(Machine& m, const Copy& c) {
    (c.direction == Direction::In ? m.counters.bytes_in : c.direction == Direction::Out ? m.counters.bytes_out : m.counters.bytes_within) += c.bytes;
    // Where kernels are only counted nobody reads the weights.
    if (!m.settings.execute && c.direction != Direction::Out) return;
    memmove(reinterpret_cast<void*>(c.to), reinterpret_cast<const void*>(c.from), c.bytes);
}

int copy(const Copy& c) {
    Machine* m = machine_of(c.direction == Direction::Out ? c.from : c.to);
    return call(c.call, m ? *m : implied(), [&](Machine& machine) {
        if (const int status = outside_capture(machine)) return status;
        if (const int status = check(machine, c)) return status;
        if (const int status = finish(machine)) return status;
        if (c.direction != Direction::Within) machine.counters.syncs++;
        move(machine, c);
        return int(SUCCESS);
    });
}

int copy_async(const Copy& c, void* stream) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return call(c.call, *s->machine, [&](Machine& m) {
        if (const int status = check(m, c)) return status;
        const uintptr_t host = c.direction == Direction::In ? c.from : c.to;
        // Pageable host memory is staged before the call returns (or, going out, filled before it returns).
        if (c.direction != Direction::Within && !m.valid(host, c.bytes)) {
            if (s->capture) return int(INVALID_VALUE);
            if (c.direction == Direction::Out) {
                if (const int status = finish(*s)) return status;
                m.counters.syncs++;
                return move(m, c), int(SUCCESS);
            }
            if (!s->items.empty()) {
                auto staged = std::make_shared<std::vector<char>>(reinterpret_cast<const char*>(c.from), reinterpret_cast<const char*>(c.from) + c.bytes);
                return submit(*s, c.call, [&m, c, staged] {
                    Copy from = c;
                    from.from = reinterpret_cast<uintptr_t>(staged->data());
                    return move(m, from), SUCCESS;
                });
            }
            return move(m, c), int(SUCCESS);
        }
        return submit(*s, c.call, [&m, c] { return move(m, c), SUCCESS; });
    });
}

uintptr_t at(const void* p) { return reinterpret_cast<uintptr_t>(p); }

int fill(const char* name, uintptr_t to, unsigned value, size_t unit, size_t n, void* stream, bool async) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return call(name, *s->machine, [&](Machine& m) {
        if (!m.valid(to, n * unit) || to % unit) return int(INVALID_VALUE);
        if (!async && outside_capture(m)) return int(STREAM_CAPTURE_UNSUPPORTED);
        return submit(*s, name, [to, value, unit, n, &m] {
            if (!m.settings.execute) return SUCCESS;
            for (size_t i = 0; unit > 1 && i < n; i++) memcpy(reinterpret_cast<char*>(to) + i * unit, &value, unit);
            if (unit == 1) memset(reinterpret_cast<void*>(to), static_cast<int>(value), n);
            return SUCCESS;
        });
    });
}

} // namespace

API cuMemcpyHtoD_v2(uintptr_t to, const void* from, size_t n) { return copy({"cuMemcpyHtoD", to, at(from), n, Direction::In}); }
API cuMemcpyDtoH_v2(void* to, uintptr_t from, size_t n) { return copy({"cuMemcpyDtoH", at(to), from, n, Direction::Out}); }
API cuMemcpyDtoD_v2(uintptr_t to, uintptr_t from, size_t n) { return copy({"cuMemcpyDtoD", to, from, n, Direction::Within}); }
API cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t n, void* s) {
    return copy_async({"cuMemcpyHtoDAsync", to, at(from), n, Direction::In}, s);
}
API cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t n, void* s) {
    return copy_async({"cuMemcpyDtoHAsync", at(to), from, n, Direction::Out}, s);
}
API cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t n, void* s) {
    return copy_async({"cuMemcpyDtoDAsync", to, from, n, Direction::Within}, s);
}
API cuMemsetD8_v2(uintptr_t to, unsigned char v, size_t n) { return fill("cuMemsetD8", to, v, 1, n, nullptr, false); }
API cuMemsetD16_v2(uintptr_t to, unsigned short v, size_t n) { return fill("cuMemsetD16", to, v, 2, n, nullptr, false); }
API cuMemsetD32_v2(uintptr_t to, unsigned v, size_t n) { return fill("cuMemsetD32", to, v, 4, n, nullptr, false); }
API cuMemsetD8Async(uintptr_t to, unsigned char v, size_t n, void* s) { return fill("cuMemsetD8Async", to, v, 1, n, s, true); }
API cuMemsetD16Async(uintptr_t to, unsigned short v, size_t n, void* s) { return fill("cuMemsetD16Async", to, v, 2, n, s, true); }
API cuMemsetD32Async(uintptr_t to, unsigned v, size_t n, void* s) { return fill("cuMemsetD32Async", to, v, 4, n, s, true); }
