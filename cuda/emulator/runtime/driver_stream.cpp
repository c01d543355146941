// Streams, events, capture and graphs. Work happens when it is submitted, or, where the machine delays, as late as it may.
#include <time.h>

#include <algorithm>

#include "checker.h"
#include "driver.h"

namespace emu {

Stream* stream_of(void* handle) {
    if (reinterpret_cast<uintptr_t>(handle) > 2) return as<Stream>(handle);
    Machine& m = implied();
    for (Stream* s : m.streams)
        if (s->flags == ~0u) return s;
    auto* s = new Stream(m);
    s->flags = ~0u;
    m.streams.push_back(s);
    return s;
}

// Does the stream's first item, after what it waits for.
static int step(Stream& s) {
    if (s.items.front().stuck) return NOT_READY;
    Item item = std::move(s.items.front());
    s.items.pop_front();
    s.done++;
    if (item.wait && alive(item.of, Kind::Stream))
        while (item.of->done < item.until && !item.of->items.empty())
            if (const int status = step(*item.of)) return status;
    return item.work ? item.work() : int(SUCCESS);
}

static int drain(Stream& s) {
    while (!s.items.empty())
        if (const int status = step(s)) return status;
    return SUCCESS;
}

// The others go first, or stay behind for as long as they may: what lacks an event shows in one of the two.
static int others_first(Stream& s) {
    Machine& m = *s.machine;
    const bool others = m.settings.order == Order::Reverse || (m.settings.order == Order::Random && (s.done + m.settings.seed) % 2);
    if (others || s.flags == ~0u)
        for (Stream* other : m.streams)
            if (other != &s)
                if (const int status = drain(*other)) return status;
    return SUCCESS;
}

int finish(Stream& s) {
    if (const int status = others_first(s)) return status;
    return drain(s);
}

// What a host that asks brings about: one step, where the machine delays.
static int ask(Stream& s) {
    if (const int status = others_first(s)) return status;
    return s.items.empty() ? int(SUCCESS) : step(s);
}

int finish(Machine& m) {
    std::vector<Stream*> streams = m.streams;
    if (m.settings.order == Order::Reverse) std::reverse(streams.begin(), streams.end());
    for (Stream* s : streams)
        if (const int status = drain(*s)) return status;
    return SUCCESS;
}

int outside_capture(Machine& m) {
    int status = SUCCESS;
    for (Stream* s : m.streams)
        if (s->capture && s->mode == 0) s->invalidated = true, status = STREAM_CAPTURE_UNSUPPORTED;
    return status;
}

int submit(Stream& s, const std::string& name, Work work) {
    if (s.capture) {
        if (s.invalidated) return STREAM_CAPTURE_INVALIDATED;
        s.capture->nodes.push_back(std::move(work));
        s.capture->names.push_back(name);
        return SUCCESS;
    }
    s.submitted++;
    const bool stuck = s.machine->sticks(name);
    if (stuck || !s.items.empty() || (s.machine->settings.delayed && s.flags != ~0u)) {
        s.items.push_back({std::move(work), nullptr, nullptr, 0, stuck});
        return SUCCESS;
    }
    if (s.flags == ~0u)
        if (const int status = finish(*s.machine)) return status;
    s.done++;
    return work();
}

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

} // namespace emu

using namespace emu;

static int create(const char* name, void** stream, unsigned flags) {
    return call(name, [&](Machine& m) {
        if (!current()) return INVALID_CONTEXT;
        auto* s = new Stream(m);
        s->flags = flags;
        m.streams.push_back(s);
        return *stream = s, SUCCESS;
    });
}
API cuCtxSynchronize() {
    return call("cuCtxSynchronize", [](Machine& m) {
        if (!current()) return int(INVALID_CONTEXT);
        if (const int status = outside_capture(m)) return status;
        m.counters.syncs++;
        const int status = finish(m);
        if (m.checker) m.checker->synchronized();
        return status;
    });
}
API cuStreamCreate(void** stream, unsigned flags) { return create("cuStreamCreate", stream, flags); }
API cuStreamCreateWithPriority(void** stream, unsigned flags, int) { return create("cuStreamCreateWithPriority", stream, flags); }
API cuStreamDestroy_v2(void* stream) {
    return with<Stream>("cuStreamDestroy", stream, [](Stream& s) {
        const int status = drain(s);
        auto& all = s.machine->streams;
        all.erase(std::remove(all.begin(), all.end(), &s), all.end());
        delete &s;
        return status;
    });
}
API cuStreamSynchronize(void* stream) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return call("cuStreamSynchronize", *s->machine, [&](Machine& m) {
        if (s->capture) return s->invalidated = true, int(STREAM_CAPTURE_UNSUPPORTED);
        m.counters.syncs++;
        const int status = finish(*s);
        // Other streams are not told apart.
        if (m.checker) m.checker->synchronized();
        return status;
    });
}
// Asking is what makes progress where the machine delays: a host that polls gets there.
API cuStreamQuery(void* stream) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return call("cuStreamQuery", *s->machine, [&](Machine&) {
        if (s->items.empty()) return int(SUCCESS);
        const int status = ask(*s);
        return status ? status : s->items.empty() ? int(SUCCESS) : int(NOT_READY);
    });
}
API cuStreamGetFlags(void* stream, unsigned* flags) {
    return with<Stream>("cuStreamGetFlags", stream, [&](Stream& s) { return *flags = s.flags, 0; });
}
API cuStreamGetCtx(void* stream, void** context) {
    return with<Stream>("cuStreamGetCtx", stream, [&](Stream& s) { return *context = s.machine->primary[0].get(), 0; });
}
API cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return call("cuLaunchHostFunc", *s->machine, [&](Machine&) {
        return submit(*s, "host function", [function, data] { return function(data), SUCCESS; });
    });
}

API cuEventCreate(void** event, unsigned flags) {
    return call("cuEventCreate", [&](Machine& m) {
        if (!current()) return INVALID_CONTEXT;
        auto* e = new Event(m);
        e->timed = !(flags & 2);
        return *event = e, SUCCESS;
    });
}
API cuEventDestroy_v2(void* event) {
    return with<Event>("cuEventDestroy", event, [](Event& e) { return finish(*e.machine), delete &e, 0; });
}
static int record(const char* name, void* event, void* stream) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return with<Event>(name, event, [&](Event& e) {
        if (s->machine != e.machine) return int(INVALID_HANDLE);
        e.capture = s->capture;
        if (s->capture) return int(SUCCESS);
        e.stream = s;
        e.recorded = true;
        Event* target = &e;
        const int status = submit(*s, "record", [target] { return target->time = now(), SUCCESS; });
        e.position = s->submitted;
        return status;
    });
}
API cuEventRecord(void* event, void* stream) { return record("cuEventRecord", event, stream); }
API cuEventRecordWithFlags(void* event, void* stream, unsigned) { return record("cuEventRecordWithFlags", event, stream); }
static bool pending(const Event& e) { return e.recorded && alive(e.stream, Kind::Stream) && e.stream->done < e.position; }
API cuEventQuery(void* event) {
    return with<Event>("cuEventQuery", event, [](Event& e) {
        if (e.capture) return int(STREAM_CAPTURE_UNSUPPORTED);
        if (!pending(e)) return int(SUCCESS);
        const int status = ask(*e.stream);
        return status ? status : pending(e) ? int(NOT_READY) : int(SUCCESS);
    });
}
API cuEventSynchronize(void* event) {
    return with<Event>("cuEventSynchronize", event, [](Event& e) {
        if (e.capture) return int(STREAM_CAPTURE_UNSUPPORTED);
        e.machine->counters.syncs++;
        while (pending(e))
            if (const int status = step(*e.stream)) return status;
        return int(SUCCESS);
    });
}
static int elapsed(float* milliseconds, void* start, void* end) {
    Event *a = as<Event>(start), *b = as<Event>(end);
    if (!a || !b || !a->recorded || !b->recorded || !a->timed || !b->timed) return INVALID_HANDLE;
    return call("cuEventElapsedTime", *a->machine, [&](Machine&) {
        if (pending(*a) || pending(*b)) return NOT_READY;
        return *milliseconds = static_cast<float>(b->time - a->time), SUCCESS;
    });
}
API cuEventElapsedTime(float* milliseconds, void* start, void* end) { return elapsed(milliseconds, start, end); }
API cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) { return elapsed(milliseconds, start, end); }
API cuStreamWaitEvent(void* stream, void* event, unsigned) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return with<Event>("cuStreamWaitEvent", event, [&](Event& e) {
        if (e.capture) { // the stream joins the capture: what it does from now on comes after
            if (s->capture && s->capture != e.capture) return int(STREAM_CAPTURE_UNSUPPORTED);
            return s->capture = e.capture, int(SUCCESS);
        }
        if (s->capture || !e.recorded) return s->capture ? int(STREAM_CAPTURE_UNSUPPORTED) : int(SUCCESS);
        if (!pending(e)) return int(SUCCESS);
        s->submitted++;
        s->items.push_back({Work(), &e, e.stream, e.position, false});
        return int(SUCCESS);
    });
}

API cuStreamBeginCapture_v2(void* stream, int mode) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return call("cuStreamBeginCapture", *s->machine, [&](Machine& m) {
        if (s->flags == ~0u || s->capture) return s->capture ? int(401) : int(STREAM_CAPTURE_UNSUPPORTED);
        s->capture = new Graph(m);
        s->origin = true, s->invalidated = false, s->mode = mode;
        return int(SUCCESS);
    });
}
API cuStreamEndCapture(void* stream, void** graph) {
    return with<Stream>("cuStreamEndCapture", stream, [&](Stream& s) {
        *graph = nullptr;
        if (!s.capture || !s.origin) return int(STREAM_CAPTURE_UNMATCHED);
        Graph* g = s.capture;
        const bool invalidated = s.invalidated;
        for (Stream* other : s.machine->streams)
            if (other->capture == g) other->capture = nullptr, other->origin = other->invalidated = false;
        if (invalidated) return delete g, int(STREAM_CAPTURE_INVALIDATED);
        return *graph = g, int(SUCCESS);
    });
}
API cuStreamIsCapturing(void* stream, int* status) {
    return with<Stream>("cuStreamIsCapturing", stream, [&](Stream& s) { return *status = !s.capture ? 0 : s.invalidated ? 2 : 1, 0; });
}
API cuThreadExchangeStreamCaptureMode(int* mode) {
    return call("cuThreadExchangeStreamCaptureMode", [&](Machine&) { return *mode = 0, 0; });
}

// Device memory that a node of an instantiated graph takes.
static constexpr uint64_t NODE_BYTES = 4 << 10;

static int instantiate(void** exec, void* graph) {
    return with<Graph>("cuGraphInstantiate", graph, [&](Graph& g) {
        if (!g.machine->charge(NODE_BYTES * g.nodes.size())) return int(OUT_OF_MEMORY);
        return *exec = new GraphExec(*g.machine, g), int(SUCCESS);
    });
}
API cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) { return instantiate(exec, graph); }
API cuGraphInstantiateWithParams(void** exec, void* graph, void*) { return instantiate(exec, graph); }
API cuGraphDestroy(void* graph) {
    return with<Graph>("cuGraphDestroy", graph, [](Graph& g) { return delete &g, 0; });
}
API cuGraphExecDestroy(void* exec) {
    return with<GraphExec>("cuGraphExecDestroy", exec, [](GraphExec& e) {
        e.machine->used -= NODE_BYTES * e.names.size();
        return delete &e, 0;
    });
}
API cuGraphUpload(void* exec, void*) {
    return with<GraphExec>("cuGraphUpload", exec, [](GraphExec&) { return 0; });
}
API cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
    return with<Graph>("cuGraphGetNodes", graph, [&](Graph& g) {
        for (size_t i = 0; nodes && i < std::min(*count, g.nodes.size()); i++) nodes[i] = reinterpret_cast<void*>(i + 1);
        return *count = g.nodes.size(), 0;
    });
}
// Kernels may get other parameters and grids, but the nodes must stay what they are.
API cuGraphExecUpdate_v2(void* exec, void* graph, void* result) {
    Graph* g = as<Graph>(graph);
    if (!g) return INVALID_HANDLE;
    return with<GraphExec>("cuGraphExecUpdate", exec, [&](GraphExec& e) {
        const bool same = e.names == g->names;
        if (result) *static_cast<int*>(result) = same ? 0 : 2;
        if (!same) return GRAPH_EXEC_UPDATE_FAILURE;
        e.nodes = std::make_shared<std::vector<Work>>(g->nodes);
        return SUCCESS;
    });
}
API cuGraphLaunch(void* exec, void* stream) {
    Stream* s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    return with<GraphExec>("cuGraphLaunch", exec, [&](GraphExec& e) {
        auto nodes = e.nodes; // what is under way outlives an update
        std::string name = "graph";
        for (const std::string& node : e.names)
            for (const Failure& f : e.machine->failures)
                if (f.call == node && f.code == NOT_READY) name = node;
        return submit(*s, name, [nodes] {
            for (const Work& work : *nodes)
                if (const int status = work()) return status;
            return int(SUCCESS);
        });
    });
}
