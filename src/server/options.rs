//! How the server is to behave.

use std::{path::PathBuf, time::Duration};

use crate::text::chat::ReasoningFormat;

/// How the server is to behave; the defaults are those of `qrun serve`.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerOptions {
    /// Addresses to listen at; one that ends in `.sock` is a Unix socket.
    pub hosts: Vec<String>,
    /// TCP port; 0: one that is free.
    pub port: u16,
    /// Keys, one of which a request must show; empty: none is asked for.
    pub api_keys: Vec<String>,
    /// Listen at other addresses than this machine's own without a key.
    pub no_api_key: bool,
    /// Names in `Host` besides localhost and IP addresses, for a server on a loopback address.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call, besides this machine's; `*`: all.
    pub cors_origins: Vec<String>,
    /// Requests that may wait besides those that run, one in each of the decoder's sequences; more are refused. `None`: four
    /// times as many.
    pub queue: Option<usize>,
    /// How long a request may wait before it begins.
    pub queue_timeout: Duration,
    /// How long running answers have when the server is to end.
    pub shutdown_timeout: Duration,
    /// How long a reader may take for what was sent, and a writer for a body.
    pub timeout: Duration,
    /// Silence after which a comment is sent in a stream; `None`: none is sent.
    pub ping_interval: Option<Duration>,
    /// Threads for HTTP beside those that compute; 1 unless said.
    pub threads_http: usize,
    /// Largest body, in bytes.
    pub max_body: usize,
    /// Whether `/metrics` answers.
    pub metrics: bool,
    /// Whether `/slots` answers.
    pub slots: bool,
    /// Folder of `/slots/ID?action=save` and `restore`.
    pub slot_save_path: Option<PathBuf>,
    /// Names of the model in `/v1/models`; the first by the alphabet is in the answers.
    pub aliases: Vec<String>,
    /// Told in `/v1/models`.
    pub tags: Vec<String>,
    /// Whether the chat page is served at `/`.
    pub ui: bool,
    /// Whether requests use the prefix cache when they do not say.
    pub cache_prompt: bool,
    /// Whether only requests with the same key use what was computed.
    pub cache_per_key: bool,
    /// Whether `/v1/chat/completions` continues a last message of the assistant.
    pub prefill_assistant: bool,
    /// Whether thoughts are told apart from the text where a request does not say.
    pub reasoning_format: ReasoningFormat,
    /// Whether answers of chats tell the prompt that the template made.
    pub verbose: bool,
}

impl ServerOptions {
    /// Whether thoughts are told apart where a request says only whether to think: who asks for them wants to know which
    /// they are.
    pub fn thoughts(&self, asked: Option<bool>) -> ReasoningFormat {
        if asked == Some(true) { ReasoningFormat::Auto } else { self.reasoning_format }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            hosts: vec!["127.0.0.1".into()],
            port: 8080,
            api_keys: Vec::new(),
            no_api_key: false,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            queue: None,
            queue_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(60),
            ping_interval: Some(Duration::from_secs(15)),
            threads_http: 1,
            max_body: 8 << 20,
            metrics: false,
            slots: true,
            slot_save_path: None,
            aliases: Vec::new(),
            tags: Vec::new(),
            ui: true,
            cache_prompt: true,
            cache_per_key: false,
            prefill_assistant: true,
            reasoning_format: ReasoningFormat::Auto,
            verbose: false,
        }
    }
}
