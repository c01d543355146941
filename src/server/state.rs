//! What all requests share.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant, SystemTime},
};

use tokio::time::sleep;

use super::{error::ApiError, key_folders::KeyFolders, metrics::Metrics, options::ServerOptions};
use crate::{engine::Engine, generate::Generator, sampler::SamplerParams};

/// Gets lines for the log.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// A model that is ready to answer, and what holds where a request does not say.
pub struct Loaded {
    /// Tokenizer, template, configuration.
    pub engine: Arc<Engine>,
    /// Runs the requests.
    pub generator: Generator,
    /// How tokens are chosen; the seed is taken where `seed_said`.
    pub params: SamplerParams,
    /// Whether a seed was asked for; else every request gets one of its own.
    pub seed_said: bool,
    /// Most tokens of an answer.
    pub max_tokens: Option<usize>,
    /// Variables for the chat template.
    pub template_kwargs: serde_json::Map<String, serde_json::Value>,
}

/// What all requests share.
pub struct App {
    pub options: ServerOptions,
    pub log: Log,
    pub metrics: Metrics,
    /// Where slots are saved and the cache is each key's own.
    pub key_folders: Option<KeyFolders>,
    model: OnceLock<Loaded>,
    draining: AtomicBool,
    in_flight: AtomicUsize,
    ids: AtomicU64,
    /// Tells the ids of this run from those of another one.
    run: u64,
    started: Instant,
    created: u64,
}

impl App {
    /// Without folders for saved slots of keys.
    ///
    /// # Errors
    /// Metrics that cannot be named so.
    pub fn new(options: ServerOptions, log: Log) -> Result<Self, prometheus::Error> {
        use std::hash::{BuildHasher, Hasher};
        Ok(Self {
            metrics: Metrics::new()?,
            options,
            log,
            key_folders: None,
            model: OnceLock::new(),
            draining: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            ids: AtomicU64::new(0),
            run: std::collections::hash_map::RandomState::new().build_hasher().finish(),
            started: Instant::now(),
            created: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_secs()),
        })
    }

    /// Lets requests be answered from now on.
    pub fn ready(&self, loaded: Loaded) {
        // Once only: there is one model.
        let _ = self.model.set(loaded);
    }

    /// The model.
    ///
    /// # Errors
    /// 503 while it loads.
    pub fn model(&self) -> Result<&Loaded, ApiError> {
        self.model.get().ok_or_else(|| ApiError::unavailable("Loading model", 1))
    }

    /// From here on no request is taken.
    pub fn drain(&self) {
        self.draining.store(true, SeqCst);
    }
    /// Whether the server is about to end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(SeqCst)
    }
    /// Seconds since the epoch at which the server started.
    pub fn created(&self) -> u64 {
        self.created
    }
    /// The name of the model in answers: an alias, what the file says, or its file name.
    pub fn model_name(&self) -> String {
        let named = || {
            let engine = &self.model.get()?.engine;
            let said = engine.gguf().str("general.name").ok().flatten().map(|name| name.to_string());
            said.or_else(|| Some(engine.gguf().path().file_stem()?.to_string_lossy().into_owned()))
        };
        self.options.aliases.iter().min().cloned().or_else(named).unwrap_or_default()
    }

    /// An id that no other request of any run has: `prefix`, then 24 characters.
    pub fn id(&self, prefix: &str) -> String {
        format!("{prefix}{:016x}{:08x}", self.run, self.ids.fetch_add(1, SeqCst))
    }

    /// A seed for a request that names none.
    pub fn seed(&self) -> u32 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u128(self.started.elapsed().as_nanos());
        hasher.finish() as u32
    }

    /// # Errors
    /// 503 when the server is about to end.
    pub fn takes_requests(&self) -> Result<(), ApiError> {
        if self.is_draining() {
            self.metrics.shed("draining");
            return Err(ApiError::unavailable("the server is about to end", 5));
        }
        Ok(())
    }

    /// Waits until no request has room any more.
    pub async fn idle(&self) {
        while self.in_flight.load(SeqCst) > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Seconds after which a request may be tried again, by how long the last answers took; `own` of the sequences that are
    /// counted now are its own.
    pub fn retry_after(&self, own: usize) -> u64 {
        let at_once = self.model.get().map_or(1, |model| model.engine.options().n_seq);
        let others = self.in_flight.load(SeqCst).saturating_sub(own);
        self.metrics.retry_after(others.saturating_sub(at_once), at_once)
    }

    /// Room for `n` sequences, given back when it is dropped.
    ///
    /// # Errors
    /// 503 when the queue is full, the model loads, or the server is about to end.
    pub fn admit(self: &Arc<Self>, n: usize) -> Result<Ticket, ApiError> {
        self.takes_requests()?;
        let n_seq = self.model()?.engine.options().n_seq;
        let most = n_seq + self.options.queue.unwrap_or(4 * n_seq);
        let taken = self.in_flight.fetch_update(SeqCst, SeqCst, |now| (now + n <= most).then_some(now + n));
        match taken {
            Ok(_) => Ok(Ticket { app: self.clone(), n }),
            Err(_) if n > most => Err(ApiError::bad(format!("{n} choices: this server takes {most} at once"))),
            Err(now) => {
                self.metrics.shed("queue full");
                let message = format!("{now} requests run and wait, no more than {most} may");
                Err(ApiError::unavailable(message, self.retry_after(0)))
            }
        }
    }
}

/// Room for sequences.
pub struct Ticket {
    app: Arc<App>,
    n: usize,
}

impl Ticket {
    pub fn metrics(&self) -> &Metrics {
        &self.app.metrics
    }
    /// Seconds after which its request may be tried again.
    pub fn retry_after(&self) -> u64 {
        self.app.retry_after(self.n)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.app.in_flight.fetch_sub(self.n, SeqCst);
    }
}
