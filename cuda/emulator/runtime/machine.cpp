#include "machine.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "checker.h"
#include "driver.h"
#include "interpreter.h"

namespace emu {

// Shared memory in bytes (one block's opt-in maximum, one multiprocessor), L2 in bytes, clocks in kHz, bus in bits.
static const Gpu GPUS[] = {
    {75, "Emulated T4", 40, 1024, 65536, 65536, 4 << 20, 1590000, 5001000, 256},
    {80, "Emulated A100", 108, 2048, 166912, 167936, 40 << 20, 1410000, 1215000, 5120},
    {86, "Emulated RTX 3060", 28, 1536, 101376, 102400, 3 << 20, 1777000, 7501000, 192},
    {89, "Emulated RTX 4090", 128, 1536, 101376, 102400, 72 << 20, 2520000, 10501000, 384},
    {90, "Emulated H100", 132, 2048, 232448, 233472, 50 << 20, 1980000, 2619000, 5120},
    {100, "Emulated B200", 148, 2048, 232448, 233472, 126 << 20, 1965000, 3996000, 8192},
    {120, "Emulated RTX 5080", 84, 1536, 101376, 102400, 64 << 20, 2617000, 15001000, 256},
};

static const Gpu& gpu_of(int sm) {
    const Gpu* best = GPUS;
    for (const Gpu& g : GPUS)
        if (g.sm <= sm) best = &g;
    return *best;
}

bool Settings::parse(const std::string& text, std::vector<Failure>& failures) {
    for (size_t at = 0; at < text.size();) {
        const size_t comma = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
        if (equals >= comma) return false;
        const std::string key = text.substr(at, equals - at), value = text.substr(equals + 1, comma - equals - 1);
        at = comma + 1;
        char* rest;
        const uint64_t number = strtoull(value.c_str(), &rest, 10);
        if (key == "sm") sm = static_cast<int>(number);
        else if (key == "first") first = static_cast<int>(number);
        else if (key == "devices") devices = static_cast<int>(number);
        else if (key == "driver") driver = static_cast<int>(number);
        else if (key == "memory") memory = number << (*rest == 'g' ? 30 : *rest == 'm' ? 20 : *rest == 'k' ? 10 : 0);
        else if (key == "blocks") blocks = number;
        else if (key == "checked") checked = number;
        else if (key == "execute") execute = number;
        else if (key == "delayed") delayed = number;
        else if (key == "code" && value == "source") code = Program::Source;
        else if (key == "code" && value == "ptx") code = Program::Ptx;
        else if (key == "code" && value == "sass") code = Program::Sass;
        else if (key == "approximation" && value == "exact") approximation = 0;
        else if (key == "approximation" && value == "low") approximation = 1;
        else if (key == "approximation" && value == "high") approximation = 2;
        else if (key == "order" && value == "forward") order = Order::Forward;
        else if (key == "order" && value == "reverse") order = Order::Reverse;
        else if (key == "order" && value.compare(0, 7, "random:") == 0) order = Order::Random, seed = strtoull(value.c_str() + 7, nullptr, 10);
        else if (key == "fail") { // call:nth[:code]; call may be empty
            const size_t first = value.find(':'), second = value.find(':', first + 1);
            if (first == std::string::npos) return false;
            const int code = second == std::string::npos ? 999 : atoi(value.c_str() + second + 1);
            failures.push_back({value.substr(0, first), strtoull(value.c_str() + first + 1, nullptr, 10), code});
        } else return false;
    }
    return true;
}

static std::mutex registry_lock;
static std::vector<Machine*> registry;

static constexpr size_t ALIGN = 256;
static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static uintptr_t reserve(size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? 0 : reinterpret_cast<uintptr_t>(p);
}

Machine::Machine(Settings s)
    : settings(s), gpu(gpu_of(s.sm)), counts(s.code != Program::Source && interpreter() ? interpreter()->counts() : nullptr), base(reserve((256ull << 30) + 4 * s.memory)), span(base ? (256ull << 30) + 4 * s.memory : 0), top(base) {
    std::lock_guard<std::mutex> guard(registry_lock);
    registry.push_back(this);
}

Machine::~Machine() {
    std::lock_guard<std::mutex> guard(registry_lock);
    registry.erase(std::remove(registry.begin(), registry.end(), this), registry.end());
    while (!device.empty()) release(device.begin()->first);
    while (!host.empty()) release_host(reinterpret_cast<void*>(host.begin()->first));
    if (span) munmap(reinterpret_cast<void*>(base), span);
    if (counts) interpreter()->forget(counts);
}

uintptr_t Machine::allocate(size_t bytes) {
    // Rounded as far as alignment asks: an access past the end meets the unmapped page at once or within 255 bytes.
    const size_t rounded = round_up(bytes, ALIGN), pages = round_up(rounded, PAGE);
    if (rounded > settings.memory - used || top + pages + PAGE > base + span) return 0;
    if (mprotect(reinterpret_cast<void*>(top), pages, PROT_READ | PROT_WRITE)) return 0;
    const uintptr_t begin = top + pages - rounded;
    top += pages + PAGE;
    used += rounded;
    layout++;
    // NaN in every format; large ones stay untouched so that they cost nothing.
    if (settings.execute && bytes <= 256u << 20) memset(reinterpret_cast<void*>(begin), 0xff, rounded);
    Region& r = device[begin];
    r.begin = begin, r.end = begin + bytes, r.mapped = pages;
    r.name = "allocation " + std::to_string(counters.allocations++);
    return begin;
}

bool Machine::release(uintptr_t address) {
    const auto at = device.find(address);
    if (at == device.end()) return false;
    Region& r = at->second;
    const size_t rounded = round_up(r.end - r.begin, ALIGN);
    void* pages = reinterpret_cast<void*>(r.begin + rounded - r.mapped);
    mmap(pages, r.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (r.shadow) munmap(r.shadow, shadow_bytes(r));
    used -= rounded;
    layout++;
    device.erase(at);
    return true;
}

void* Machine::allocate_host(size_t bytes) {
    const size_t pages = round_up(bytes, PAGE);
    const uintptr_t p = reserve(pages + PAGE);
    if (!p || mprotect(reinterpret_cast<void*>(p), pages, PROT_READ | PROT_WRITE)) return nullptr;
    const uintptr_t begin = p + (pages - round_up(bytes, ALIGN));
    Region& r = host[begin];
    r.begin = begin, r.end = begin + bytes, r.mapped = pages + PAGE, r.name = "pinned memory";
    layout++;
    return reinterpret_cast<void*>(begin);
}

bool Machine::register_host(void* p, size_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(p);
    if (!bytes || find(begin, false) || find(begin + bytes - 1, false)) return false;
    Region& r = host[begin];
    r.begin = begin, r.end = begin + bytes, r.name = "registered host memory";
    layout++;
    return true;
}

bool Machine::release_host(void* p) {
    const auto at = host.find(reinterpret_cast<uintptr_t>(p));
    if (at == host.end()) return false;
    const Region& r = at->second;
    if (r.mapped) munmap(reinterpret_cast<void*>(r.begin / PAGE * PAGE), r.mapped);
    if (r.shadow) munmap(r.shadow, shadow_bytes(r));
    layout++;
    host.erase(at);
    return true;
}

bool Machine::fence(uintptr_t address, size_t bytes, const std::string& name) {
    Region* of = find(address, false);
    if (!of || address % ALIGN || address + bytes > of->end) return false;
    Region& r = of->fences[address];
    r.begin = address, r.end = address + bytes, r.name = name, r.parent = of;
    layout++;
    return true;
}

static Region* at_or_before(std::map<uintptr_t, Region>& regions, uintptr_t address) {
    auto next = regions.upper_bound(address);
    if (next == regions.begin()) return nullptr;
    return &(--next)->second;
}

Region* Machine::find(uintptr_t address, bool inside_fences) {
    for (auto* regions : {&device, &host}) {
        Region* r = at_or_before(*regions, address);
        if (!r || address >= r->end) continue;
        if (!inside_fences || r->fences.empty()) return r;
        Region* part = at_or_before(r->fences, address);
        return part && address < part->end ? part : nullptr;
    }
    return nullptr;
}

bool Machine::valid(uintptr_t address, size_t bytes) {
    const Region* r = find(address, false);
    return (r && address + bytes <= r->end) || (!bytes && address - base <= span);
}

std::string Machine::describe(uintptr_t address) {
    if (const Region* in = find(address, true))
        return "byte " + std::to_string(address - in->begin) + " of " + std::to_string(in->end - in->begin) + " of " + in->name;
    Region* r = address - base < span ? at_or_before(device, address) : at_or_before(host, address);
    Region* part = r ? at_or_before(r->fences, address) : nullptr;
    if (part) r = part;
    if (r && address - r->end < 1u << 20)
        return "memory " + std::to_string(address - r->end) + " bytes behind the end of " + r->name + " (" + std::to_string(r->end - r->begin) + " bytes)";
    for (auto& next : device)
        if (next.first > address && next.first - address < 1u << 20)
            return "memory " + std::to_string(next.first - address) + " bytes before " + next.second.name;
    char hex[32];
    snprintf(hex, sizeof hex, "0x%zx", static_cast<size_t>(address));
    return std::string(address - base < span ? "device memory that is not allocated, " : "memory that is not the device's, ") + hex;
}

std::string describe_address(uintptr_t address) {
    Machine* m = machine_of(address);
    return (m ? *m : entered()).describe(address);
}

Machine* machine_of(uintptr_t address) {
    std::lock_guard<std::mutex> guard(registry_lock);
    for (Machine* m : registry)
        if (address - m->base < m->span) return m;
    return nullptr;
}

int Machine::count(const char* call) {
    counters.calls[call]++;
    int code = 0;
    for (Failure& f : failures)
        if ((f.call.empty() || f.call == call) && f.left && !--f.left) code = f.code;
    return code;
}

bool Machine::sticks(const std::string& kernel) {
    bool stuck = false;
    for (Failure& f : failures)
        if (f.call == kernel && f.code == NOT_READY && f.left && !--f.left) stuck = true;
    return stuck;
}

bool Machine::charge(uint64_t bytes) {
    if (bytes > settings.memory - used) return false;
    used += bytes;
    return true;
}

void Machine::publish(const void* p) {
    if (!settings.checked || published.size() > 1u << 20) return; // nobody asks
    if (!p) {
        published += "fence\n";
        return;
    }
    unsigned words[4];
    memcpy(words, reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t(15)), sizeof words);
    for (int i = 0; i < 4; i++) published += std::to_string(words[i]) + (i < 3 ? " " : "\n");
}

void Machine::reset_counters() {
    if (counts) interpreter()->reset(counts);
    counters = Counters();
    for (auto* regions : {&device, &host})
        for (auto& r : *regions) {
            r.second.read = r.second.written = 0;
            for (auto& part : r.second.fences) part.second.read = part.second.written = 0;
        }
}

std::string Machine::print_counters() {
    std::string s;
    const auto line = [&s](const char* kind, const std::string& name, uint64_t a, uint64_t b) {
        s += std::string(kind) + '\t' + name + '\t' + std::to_string(a) + '\t' + std::to_string(b) + '\n';
    };
    for (const auto& c : counters.calls) line("call", c.first, c.second, 0);
    for (const auto& c : counters.launches) line("launch", c.first, c.second, 0);
    line("count", "syncs", counters.syncs, 0);
    line("count", "allocations", counters.allocations, 0);
    line("count", "bytes_in", counters.bytes_in, 0);
    line("count", "bytes_out", counters.bytes_out, 0);
    line("count", "bytes_within", counters.bytes_within, 0);
    line("count", "used", used, 0);
    for (auto* regions : {&device, &host})
        for (const auto& r : *regions) {
            if (r.second.fences.empty()) line("region", r.second.name, r.second.read, r.second.written);
            for (const auto& part : r.second.fences) line("region", part.second.name, part.second.read, part.second.written);
        }
    return s;
}

// The address and, where binutils are installed, the line.
std::string source_line(const void* pc) {
    Dl_info info;
    if (!dladdr(pc, &info) || !info.dli_fname) return "unknown code";
    const size_t offset = static_cast<const char*>(pc) - static_cast<const char*>(info.dli_fbase);
    char command[4096], line[1024], found[1024] = "";
    snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%zx 2>/dev/null", info.dli_fname, offset - 1);
    if (FILE* out = popen(command, "r")) {
        // Innermost first: the first line that is not of a wrapper's own file.
        while (fgets(line, sizeof line, out)) {
            line[strcspn(line, "\n (")] = 0;
            const bool wrapper = strstr(line, "emulator.cuh:") || strstr(line, "builtins.cuh:") || strstr(line, "ptx.cuh:");
            if (*line != '?' && (!*found || !wrapper)) strcpy(found, line);
            if (*found && !wrapper) break;
        }
        pclose(out);
    }
    if (!*found) snprintf(found, sizeof found, "%s+0x%zx", info.dli_fname, offset);
    const char* name = strrchr(found, '/');
    return name ? name + 1 : found;
}

// Kernels are libraries beside this one: kernels-fast-75.so and so on.
const Kernel* find_kernel(int arch, bool checked, const std::string& name) {
    static std::mutex lock;
    static std::map<std::string, std::map<std::string, const Kernel*>> libraries;
    std::lock_guard<std::mutex> guard(lock);
    const std::string file = std::string("kernels-") + (checked ? "checked-" : "fast-") + std::to_string(arch >= 80 ? 80 : 75) + ".so";
    auto at = libraries.find(file);
    if (at == libraries.end()) {
        at = libraries.emplace(file, std::map<std::string, const Kernel*>()).first;
        Dl_info self;
        dladdr(reinterpret_cast<void*>(&find_kernel), &self);
        const std::string folder(self.dli_fname, strrchr(self.dli_fname, '/') + 1 - self.dli_fname);
        void* library = dlopen((folder + file).c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) fprintf(stderr, "emulator: %s\n", dlerror()), abort();
        size_t n = 0;
        const Kernel* k = reinterpret_cast<decltype(&emu_kernels)>(dlsym(library, "emu_kernels"))(&n);
        for (size_t i = 0; i < n; i++) at->second[k[i].name] = &k[i];
    }
    const auto found = at->second.find(name);
    return found == at->second.end() ? nullptr : found->second;
}

} // namespace emu
