//! One line in the log for each request, written when the last of its answer is: what was asked for, the status, how many
//! tokens, how long it took. Nothing of its text.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use axum::http::Method;

use super::state::Log;

tokio::task_local! {
    /// Of the request that this task answers.
    static CURRENT: Arc<Line>;
}

/// The line of a request in the making. Whoever answers holds it; dropping the last one writes it.
pub struct Line {
    log: Log,
    id: String,
    method: Method,
    path: String,
    started: Instant,
    /// 0: nobody was there any more to be told one.
    status: AtomicU64,
    /// What a refusal says that is nobody's text.
    why: OnceLock<String>,
    pub tokens: Tokens,
}

/// Tokens of a request, of all its prompts and answers.
#[derive(Default)]
pub struct Tokens {
    pub prompt: AtomicUsize,
    /// Those of the prompts that the prefix cache had.
    pub cached: AtomicUsize,
    pub generated: AtomicUsize,
}

impl Line {
    pub fn new(log: &Log, id: &str, method: Method, path: &str) -> Arc<Self> {
        Arc::new(Self {
            log: log.clone(),
            id: id.to_owned(),
            method,
            path: path.to_owned(),
            started: Instant::now(),
            status: AtomicU64::new(0),
            why: OnceLock::new(),
            tokens: Tokens::default(),
        })
    }

    /// The line of the request that this task answers.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Runs what answers the request.
    pub async fn scope<T>(self: &Arc<Self>, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    pub fn status(&self, status: u16) {
        self.status.store(status.into(), Relaxed);
    }

    pub fn why(&self, why: Option<&str>) {
        // Once only: a request is refused once.
        let _ = why.map(|why| self.why.set(why.to_owned()));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Self { id, method, path, .. } = self;
        let [prompt, cached, generated] =
            [&self.tokens.prompt, &self.tokens.cached, &self.tokens.generated].map(|n| n.load(Relaxed));
        let status = match self.status.load(Relaxed) {
            0 => "gone".to_owned(),
            status => status.to_string(),
        };
        let tokens = match prompt {
            0 => String::new(),
            _ => format!(", prompt {prompt} (cached {cached}), generated {generated}"),
        };
        let ms = self.started.elapsed().as_millis();
        let why = self.why.get().map_or(String::new(), |why| format!(", {why}"));
        (self.log)(&format!("{id}: {method} {path} {status} {ms} ms{tokens}{why}"));
    }
}
