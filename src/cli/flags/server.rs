//! Flags of llama-server that `qrun serve` does not have, and the shortcuts that download a model.

use super::{
    flag::Flag,
    value::{
        Check::Text,
        Takes::{Nothing, One},
    },
};

const WHY: &str = "a flag of llama-server that qrun serve does not have";
const ALWAYS: &str = "requests always share one pool of pages, and steps";
const EMBED: &str = "embeddings and reranking are not implemented: their endpoints answer 501";
const CACHE: &str = "whole pages of what was computed before are found again by themselves";
const DOWNLOAD: &str = "qrun has no shortcut for this model; -hf USER/REPO[:TAG] names any";

#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::refused("--gpt-oss-20b-default", Nothing, DOWNLOAD),
    Flag::refused("--gpt-oss-120b-default", Nothing, DOWNLOAD),
    Flag::refused("--vision-gemma-4b-default", Nothing, DOWNLOAD),
    Flag::refused("--vision-gemma-12b-default", Nothing, DOWNLOAD),
    Flag::refused("-lcs, --lookup-cache-static", One("FNAME", Text), WHY),
    Flag::refused("-lcd, --lookup-cache-dynamic", One("FNAME", Text), WHY),
    Flag::refused("--spm-infill", Nothing, WHY),
    Flag::noted("--pooling", One("{none,mean,cls,last,rank}", Text), EMBED),
    Flag::refused("--mtmd-batch-max-tokens", One("N", Text), WHY),
    Flag::noted("--embd-normalize", One("N", Text), EMBED),
    Flag::refused("--reuse-port", Nothing, WHY),
    Flag::refused("--path", One("PATH", Text), WHY),
    Flag::refused("--cors-methods", One("METHODS", Text), WHY),
    Flag::refused("--cors-headers", One("HEADERS", Text), WHY),
    Flag::refused("--cors-credentials, --no-cors-credentials", Nothing, WHY),
    Flag::refused("--api-prefix", One("PREFIX", Text), WHY),
    Flag::refused("--ui-config, --webui-config", One("JSON", Text), WHY),
    Flag::refused("--ui-config-file, --webui-config-file", One("PATH", Text), WHY),
    Flag::refused("--ui-mcp-proxy, --webui-mcp-proxy, --no-ui-mcp-proxy, --no-webui-mcp-proxy", Nothing, WHY),
    Flag::refused("--tools", One("TOOL1,TOOL2,...", Text), WHY),
    Flag::refused("--tools-runtime", One("OPTION", Text), WHY),
    Flag::refused("--mcp-servers-config", One("PATH", Text), WHY),
    Flag::refused("--mcp-servers-json", One("JSON", Text), WHY),
    Flag::refused("-ag, --agent, -no-ag, --no-agent", Nothing, WHY),
    Flag::noted("--embedding, --embeddings", Nothing, EMBED),
    Flag::noted("--rerank, --reranking", Nothing, EMBED),
    Flag::refused("--ssl-key-file", One("FNAME", Text), WHY),
    Flag::refused("--ssl-cert-file", One("FNAME", Text), WHY),
    Flag::refused("--props", Nothing, WHY),
    Flag::refused("--media-path", One("PATH", Text), WHY),
    Flag::refused("--models-dir", One("PATH", Text), WHY),
    Flag::refused("--models-preset", One("PATH", Text), WHY),
    Flag::refused("--models-max", One("N", Text), WHY),
    Flag::refused("--models-autoload, --no-models-autoload", Nothing, WHY),
    Flag::refused("--lora-init-without-apply", Nothing, WHY),
    Flag::refused("--sleep-idle-seconds", One("SECONDS", Text), WHY),
    Flag::refused("--embd-gemma-default", Nothing, DOWNLOAD),
    Flag::refused("--fim-qwen-1.5b-default", Nothing, DOWNLOAD),
    Flag::refused("--fim-qwen-3b-default", Nothing, DOWNLOAD),
    Flag::refused("--fim-qwen-7b-default", Nothing, DOWNLOAD),
    Flag::refused("--fim-qwen-7b-spec", Nothing, DOWNLOAD),
    Flag::refused("--fim-qwen-14b-spec", Nothing, DOWNLOAD),
    Flag::refused("--fim-qwen-30b-default", Nothing, DOWNLOAD),
    Flag::noted("-cb, --cont-batching, -nocb, --no-cont-batching", Nothing, ALWAYS),
    Flag::noted("-kvu, --kv-unified, -no-kvu, --no-kv-unified", Nothing, ALWAYS),
    Flag::noted("--kv-unified-per-slot", One("N", Text), ALWAYS),
    Flag::noted("-sps, --slot-prompt-similarity", One("SIMILARITY", Text), CACHE),
    Flag::noted("--cache-reuse", One("N", Text), CACHE),
    Flag::noted("--cache-idle-slots, --no-cache-idle-slots", Nothing, CACHE),
    Flag::noted("-cms, --checkpoint-min-step", One("N", Text), CACHE),
];
