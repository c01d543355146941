//! What a caller does to the logits before a token is chosen from them.

use std::{fmt, sync::Arc};

/// Gets the tokens so far (the prompt and the answer) and the logits after them, `[n_vocab]`, which it may change; they go
/// on to step 0 of the sampler. An error ends the request.
pub type Process = dyn Fn(&[u32], &mut [f32]) -> Result<(), String> + Send + Sync;

/// A [`Process`] that can be part of a request.
#[derive(Clone)]
pub struct LogitsProcessor(pub Arc<Process>);

impl fmt::Debug for LogitsProcessor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("LogitsProcessor")
    }
}
