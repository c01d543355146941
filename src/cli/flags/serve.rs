//! Flags of `qrun serve`.

use std::time::Duration;

use super::{
    flag::{Flag, Group::Server},
    value::{
        Check::{File, Text, Whole, Word},
        Takes::{Nothing, One},
    },
};

const MAX: i64 = i32::MAX as i64;

fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.max(0) as u64)
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::serve("--host", One("HOSTS", Text), "addresses to listen at, or X.sock for a Unix socket [127.0.0.1]", |a, v| a.server.options.hosts = list(&v.text())).env("LLAMA_ARG_HOST").shown(Server),
    Flag::serve("--port", One("PORT", Whole(0, 65535)), "port [8080]; 0: a free one", |a, v| a.server.options.port = v.count() as u16).env("LLAMA_ARG_PORT").shown(Server),
    Flag::serve("-np, --parallel", One("N", Whole(-1, 1024)), "requests at once [16; on a GPU 32, with --spec-type 8], each up to -c / N tokens", |a, v| a.server.parallel = usize::try_from(v.whole()).ok().filter(|&n| n > 0)).env("LLAMA_ARG_N_PARALLEL").elsewhere("1").shown(Server),
    Flag::serve("--queue", One("N", Whole(0, MAX)), "requests that may wait [4 times those at once]; more get 503", |a, v| a.server.options.queue = Some(v.count())).shown(Server),
    Flag::serve("--queue-timeout", One("S", Whole(1, MAX)), "seconds a request may wait [60]", |a, v| a.server.options.queue_timeout = seconds(v.whole())).shown(Server),
    Flag::serve("--step-ms", One("N", Whole(1, MAX)), "most ms of a step while anybody decodes [225; on a GPU 30]", |a, v| a.server.step_ms = Some(v.whole() as f64)).shown(Server),
    Flag::serve("--deterministic", Nothing, "the same text whatever runs beside it: the CPU, F16 and BF16 in f32", |a, v| a.server.deterministic = v.on()).shown(Server),
    Flag::serve("--grammar-warm", Nothing, "make the vocabulary ready for grammars at the start", |a, v| a.server.grammar_warm = v.on()).shown(Server),
    Flag::serve("--api-key", One("KEYS", Text), "keys, one of which a request must show", |a, v| a.server.options.api_keys.extend(list(&v.text()))).env("LLAMA_API_KEY").shown(Server),
    Flag::serve("--api-key-file", One("FILE", File), "the same from a file, one a line", |a, v| a.server.api_key_file = Some(v.file())).env("LLAMA_ARG_API_KEY_FILE"),
    Flag::serve("--no-api-key", Nothing, "let other machines in without a key", |a, v| a.server.options.no_api_key = v.on()).shown(Server),
    Flag::serve("--allowed-hosts", One("NAMES", Text), "names in Host besides localhost and addresses", |a, v| a.server.options.allowed_hosts = list(&v.text())).shown(Server),
    Flag::serve("--cors-origins", One("ORIGINS", Text), "origins whose pages may call; *: all", |a, v| a.server.options.cors_origins = list(&v.text())).env("LLAMA_ARG_CORS_ORIGINS").shown(Server),
    Flag::serve("-to, --timeout", One("S", Whole(1, MAX)), "seconds a client may take to read or to send [60]", |a, v| a.server.options.timeout = seconds(v.whole())).env("LLAMA_ARG_TIMEOUT").shown(Server),
    Flag::serve("--shutdown-timeout", One("S", Whole(0, MAX)), "seconds for running answers at the end [30]", |a, v| a.server.options.shutdown_timeout = seconds(v.whole())).shown(Server),
    Flag::serve("--sse-ping-interval", One("S", Whole(-1, MAX)), "seconds of silence before a comment in a stream [15]; -1: none", |a, v| a.server.options.ping_interval = Some(seconds(v.whole())).filter(|s| !s.is_zero())).env("LLAMA_ARG_SSE_PING_INTERVAL"),
    Flag::serve("--threads-http", One("N", Whole(-1, 64)), "threads for HTTP [1]", |a, v| a.server.options.threads_http = v.count().max(1)).env("LLAMA_ARG_THREADS_HTTP"),
    Flag::serve("--max-body", One("BYTES", Whole(1, 1 << 31)), "largest body of a request [8 MiB]", |a, v| a.server.options.max_body = v.count()),
    Flag::serve("-a, --alias", One("NAMES", Text), "names of the model for clients", |a, v| a.server.options.aliases = list(&v.text())).env("LLAMA_ARG_ALIAS").shown(Server),
    Flag::serve("--tags", One("TAGS", Text), "tags of the model for clients", |a, v| a.server.options.tags = list(&v.text())).env("LLAMA_ARG_TAGS"),
    Flag::serve("--metrics", Nothing, "answer at /metrics", |a, v| a.server.options.metrics = v.on()).env("LLAMA_ARG_ENDPOINT_METRICS").shown(Server),
    Flag::serve("--slots, !--no-slots", Nothing, "answer at /slots (the default)", |a, v| a.server.options.slots = v.on()).env("LLAMA_ARG_ENDPOINT_SLOTS"),
    Flag::serve("--slot-save-path", One("DIR", File), "folder for saved slots", |a, v| a.server.options.slot_save_path = Some(v.file())),
    Flag::serve("--ui, --webui, !--no-ui, !--no-webui", Nothing, "a chat page at / (the default)", |a, v| a.server.options.ui = v.on()).env("LLAMA_ARG_UI"),
    Flag::serve("--cache-prompt, !--no-cache-prompt", Nothing, "use what was computed before (the default)", |a, v| a.server.options.cache_prompt = v.on()).env("LLAMA_ARG_CACHE_PROMPT"),
    Flag::serve("--cache-per-key", Nothing, "share what was computed only among requests with the same key", |a, v| a.server.options.cache_per_key = v.on()).shown(Server),
    Flag::serve("--reasoning-format", One("FORMAT", Word(&["auto", "deepseek", "none"])), "thoughts: auto and deepseek tell them apart, none leaves them in the text", |a, v| a.server.options.reasoning_format = v.text().parse().unwrap_or_default()).env("LLAMA_ARG_THINK").noted_elsewhere("thoughts stay in the text"),
    Flag::serve("--prefill-assistant, !--no-prefill-assistant", Nothing, "continue a last message of the assistant (the default)", |a, v| a.server.options.prefill_assistant = v.on()).env("LLAMA_ARG_PREFILL_ASSISTANT"),
];
