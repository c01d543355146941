-- What wrk does and says: its report goes as JSON to the file of the first argument. With a second, lines of that file
-- are the bodies of streamed requests, and an answer without its last event is an error.
local threads = {}
function setup(thread) threads[#threads + 1] = thread end

local bodies, sent = {}, 0
file, cut, events = nil, 0, 0 -- Global: `done` runs elsewhere and reads them from the thread.
function init(args)
    file = args[1]
    if not args[2] then return end
    for line in io.lines(args[2]) do
        bodies[#bodies + 1] = line:gsub("}$", ', "stream": true}')
    end
    function request()
        sent = sent + 1
        return wrk.format("POST", nil, { ["Content-Type"] = "application/json" }, bodies[(sent - 1) % #bodies + 1])
    end
    function response(status, _, body)
        if status ~= 200 then return end
        local _, parts = body:gsub("data: {", "")
        events = events + parts
        if not body:find("data: [DONE]", 1, true) then cut = cut + 1 end
    end
end

function done(summary, latency)
    local thread, errors = threads[1], summary.errors
    -- What wrk calls an error of reading is a connection that the server closed. After a whole answer it may do so.
    local closed = math.min(errors.read, summary.requests)
    local failed = errors.connect + errors.read - closed + errors.write + errors.status + errors.timeout
    local report = '{"requests": %d, "rps": %.3f, "p50_ms": %.3f, "p99_ms": %.3f, '
        .. '"errors": %d, "closed": %d, "events": %d}'
    local out = assert(io.open(thread:get("file"), "w"))
    out:write(report:format(summary.requests, summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3,
        latency:percentile(99) / 1e3, failed + thread:get("cut"), closed, thread:get("events")))
    out:close()
end
