// What tests ask of the emulator itself: the functions that lib.rs looks up.
#include <stdlib.h>

#include "driver.h"
#include "interpreter.h"

using namespace emu;

#define CONTROL extern "C" __attribute__((visibility("default")))

static char* copy(const std::string& text) { return strdup(text.c_str()); }

static const Interpreter* registered;
namespace emu {
const Interpreter* interpreter() { return registered; }
} // namespace emu

// Once, before the first machine is made.
CONTROL void emu_interpreter(const Interpreter* functions) { registered = functions; }
// What the interpreter counted, or null.
CONTROL void* emu_counts(void* machine) { return static_cast<Machine*>(machine)->counts; }

// Null where the settings are not understood.
CONTROL void* emu_machine_new(const char* text) {
    Settings settings;
    std::vector<Failure> failures;
    if (!settings.parse(text, failures)) return nullptr;
    auto* m = new Machine(settings);
    m->failures = failures;
    return m;
}
// A machine lives on while somebody holds one of its contexts.
CONTROL void emu_machine_delete(void* machine) {
    auto* m = static_cast<Machine*>(machine);
    {
        std::lock_guard<std::recursive_mutex> guard(m->lock);
        m->dropped = true;
        if (m->contexts) return;
    }
    delete m;
}
CONTROL char* emu_counters(void* machine) {
    auto& m = *static_cast<Machine*>(machine);
    std::lock_guard<std::recursive_mutex> guard(m.lock);
    return copy(m.print_counters());
}
CONTROL void emu_reset_counters(void* machine) {
    auto& m = *static_cast<Machine*>(machine);
    std::lock_guard<std::recursive_mutex> guard(m.lock);
    m.reset_counters();
}
CONTROL void emu_fail(void* machine, const char* call, uint64_t nth, int code) {
    auto& m = *static_cast<Machine*>(machine);
    std::lock_guard<std::recursive_mutex> guard(m.lock);
    m.failures.push_back({call, nth, code}); // counted from now on
}
CONTROL int emu_fence(void* machine, uintptr_t address, size_t bytes, const char* name) {
    auto& m = *static_cast<Machine*>(machine);
    std::lock_guard<std::recursive_mutex> guard(m.lock);
    return m.fence(address, bytes, name);
}
CONTROL char* emu_report(void* machine) {
    auto& m = *static_cast<Machine*>(machine);
    std::lock_guard<std::recursive_mutex> guard(m.lock);
    return m.report.empty() ? nullptr : copy(m.report);
}
CONTROL char* emu_published(void* machine) {
    auto& m = *static_cast<Machine*>(machine);
    std::lock_guard<std::recursive_mutex> guard(m.lock);
    char* text = copy(m.published);
    m.published.clear();
    return text;
}
CONTROL void emu_free(char* text) { free(text); }
