// The emulated driver API: how a call finds its machine, what handles are, the codes it returns.
#pragma once
#include <string.h>

#include "machine.h"

#define API extern "C" __attribute__((visibility("default"))) int

namespace emu {

enum Status {
    SUCCESS = 0, DEINITIALIZED = 4, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209, INVALID_PTX = 218, UNSUPPORTED_PTX_VERSION = 222, INVALID_HANDLE = 400, NOT_FOUND = 500,
    NOT_READY = 600, HOST_MEMORY_ALREADY_REGISTERED = 712, HOST_MEMORY_NOT_REGISTERED = 713, NOT_SUPPORTED = 801,
    STREAM_CAPTURE_UNSUPPORTED = 900, STREAM_CAPTURE_INVALIDATED = 901, STREAM_CAPTURE_UNMATCHED = 903,
    GRAPH_EXEC_UPDATE_FAILURE = 910, UNKNOWN = 999,
};

// What every handle of the API points to. Handles know their machine, so they may be used on any thread.
enum class Kind { Context, Module, Function, Stream, Event, Graph, GraphExec };
struct Handle {
    Kind kind;
    Machine* machine;
    Handle(Kind k, Machine& m);
    virtual ~Handle();
};
// The handle if it is alive and of this kind, else null.
Handle* alive(void* handle, Kind kind);
template <class T> T* as(void* handle) { return static_cast<T*>(alive(handle, T::KIND)); }

struct Context : Handle {
    static constexpr Kind KIND = Kind::Context;
    int device, users = 0;
    Context(Machine& m, int d) : Handle(KIND, m), device(d) {}
};

struct Function;
struct Module : Handle {
    static constexpr Kind KIND = Kind::Module;
    int arch;          // of the image that was loaded: which build of the kernels runs
    const void* image; // the interpreter's, where it executes; else null
    std::map<std::string, std::unique_ptr<Function>> functions;
    Module(Machine& m, int a, const void* i) : Handle(KIND, m), arch(a), image(i) {}
};
struct Function : Handle {
    static constexpr Kind KIND = Kind::Function;
    Kernel kernel;    // without `run` where the interpreter executes
    const void* code; // the interpreter's kernel; else null
    int arch, max_dynamic = 48 << 10, carveout = -1;
    bool loaded = false; // its code takes device memory from the first launch on
    Function(Machine& m, const Kernel& k, const void* c, int a) : Handle(KIND, m), kernel(k), code(c), arch(a) {}
};

// A piece of work in a stream; returns a status.
using Work = std::function<int()>;
struct Event;
struct Item {
    Work work;
    Event* wait = nullptr; // first bring that event's stream to `until`
    Stream* of = nullptr;
    uint64_t until = 0;
    bool stuck = false; // never ends
};
struct Graph : Handle {
    static constexpr Kind KIND = Kind::Graph;
    std::vector<Work> nodes;
    std::vector<std::string> names; // of the nodes, for updates
    Graph(Machine& m) : Handle(KIND, m) {}
};
struct GraphExec : Handle {
    static constexpr Kind KIND = Kind::GraphExec;
    std::shared_ptr<std::vector<Work>> nodes;
    std::vector<std::string> names;
    GraphExec(Machine& m, const Graph& g) : Handle(KIND, m), nodes(std::make_shared<std::vector<Work>>(g.nodes)), names(g.names) {}
};
struct Stream : Handle {
    static constexpr Kind KIND = Kind::Stream;
    std::deque<Item> items; // not yet done: only where the machine delays
    uint64_t done = 0, submitted = 0;
    Graph* capture = nullptr;
    bool origin = false, invalidated = false;
    int mode = 0; // of the capture: 0 forbids what might synchronise, on any thread
    unsigned flags = 0;
    Stream(Machine& m) : Handle(KIND, m) {}
};
struct Event : Handle {
    static constexpr Kind KIND = Kind::Event;
    Stream* stream = nullptr;
    uint64_t position = 0;
    Graph* capture = nullptr;
    bool recorded = false, timed = true;
    double time = 0;
    Event(Machine& m) : Handle(KIND, m) {}
};

// The current context of this thread, or null.
Context*& current();
// The machine of a call that names none: of the current context, else the one entered.
Machine& implied();

// Every entry point: finds out whether the call is to fail, and whether an earlier kernel has failed.
template <class F> int call(const char* name, Machine& m, F body) {
    std::lock_guard<std::recursive_mutex> guard(m.lock);
    if (const int code = m.count(name)) return code;
    if (m.sticky) return m.sticky;
    return body(m);
}
template <class F> int call(const char* name, F body) { return call(name, implied(), body); }
// A call on a handle.
template <class T, class F> int with(const char* name, void* handle, F body) {
    T* t = as<T>(handle);
    if (!t) return INVALID_HANDLE;
    return call(name, *t->machine, [&](Machine&) { return body(*t); });
}

// The stream of a handle; null and the legacy handles are the machine's own. Null where the handle is not a stream.
Stream* stream_of(void* handle);
// Does the work now, keeps it for later, or records it in the graph that the stream captures.
int submit(Stream& stream, const std::string& name, Work work);
// Brings a stream, or all of them, to its end.
int finish(Stream& stream);
int finish(Machine& machine);
// What must not happen while any stream captures: ends those captures.
int outside_capture(Machine& machine);

} // namespace emu
