//! Texts to vectors: the hidden states of each text, pooled.
//!
//! Texts go through the layers together, and none of them sees another. A vector does not depend on what else is embedded,
//! nor on the number of threads, to the bit.

mod vectors;

use std::{ops::Range, sync::Arc};

use qrun_models::{
    Entry, EventHandler, Forward, ForwardError, Gives, Output,
    pooling::{self, Pool},
};
use qrun_quant::{GgmlType, Gguf, cpu::ComputeType};

use crate::{
    engine::{Engine, EngineOptions, LoadError},
    text::tokenizer::{Encode, TokenizeError},
};
pub use qrun_models::spec::Pooling;
pub use vectors::{Normalize, cosine};

/// Most texts that go through the layers together.
const TEXTS: usize = 32;
/// Tokens of a page of the cache.
const PAGE: usize = qrun_models::kv::PAGE;

/// Why texts have no vectors. Texts are counted from 0.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// Nothing says how hidden states become one vector.
    #[error(
        "{model} does not say how a text becomes one vector (no key {arch}.pooling_type); give --pooling mean, cls or last, or none for a vector of each token"
    )]
    NoPooling {
        /// Path of the model file.
        model: String,
        /// `general.architecture` of that file.
        arch: &'static str,
    },
    /// The model scores pairs of texts.
    #[error(
        "pooling \"rank\" (scores of a reranker) is not implemented; --pooling mean, cls, last or none gives vectors"
    )]
    Rank,
    /// A text without tokens, of a model that puts none around it.
    #[error("text {text} is empty: it has no tokens")]
    Empty {
        /// Its place among the texts that were given, from 0.
        text: usize,
    },
    /// A text that does not fit.
    #[error("text {text} has {tokens} tokens, more than the context of {n_ctx}; shorten it{}", hint(*.longer))]
    TooLong {
        /// Its place among the texts that were given, from 0.
        text: usize,
        /// Its length in tokens.
        tokens: usize,
        /// Context size in tokens.
        n_ctx: usize,
        /// Whether a larger context could be asked for.
        longer: bool,
    },
    /// A text that the vocabulary cannot say.
    #[error("text {text}: {error}")]
    Tokens {
        /// Its place among the texts that were given, from 0.
        text: usize,
        /// What the tokenizer says.
        error: TokenizeError,
    },
    /// A vector that is none.
    #[error("text {text}: the model gives numbers that are not finite; its file is damaged")]
    NotFinite {
        /// Its place among the texts that were given, from 0.
        text: usize,
    },
    /// The model cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The model cannot be run.
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

fn hint(longer: bool) -> &'static str {
    if longer { " or enlarge it (-c)" } else { "" }
}

/// A model that makes vectors of texts.
pub struct Embedder {
    engine: Arc<Engine>,
    forward: Box<dyn Forward>,
    pooling: Pooling,
    /// Formats of the weights.
    types: Vec<GgmlType>,
}

impl Embedder {
    /// Opens a model for embeddings: it gives hidden states, has no head, and holds the keys and values of a few texts.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn engine(gguf: Gguf, mut options: EngineOptions) -> Result<Engine, LoadError> {
        let o = &mut options.options;
        (o.gives, o.n_seq) = (Gives::Hidden, TEXTS);
        // Every text may end inside of a page. Sliding layers have no pages of their own, or each text a whole window.
        (o.n_kv, o.swa_full) = (o.n_ubatch.next_multiple_of(PAGE) + TEXTS * PAGE, true);
        Engine::open(gguf, options)
    }

    /// Loads the weights of what [`Embedder::engine`] has opened. `pooling` in place of what the file or the architecture
    /// says; `on_event` hears how loading goes.
    ///
    /// # Errors
    /// No pooling, or one that is not implemented; no threads.
    pub fn new(engine: Arc<Engine>, pooling: Option<Pooling>, mut on_event: EventHandler) -> Result<Self, EmbedError> {
        let config = &engine.model().config;
        let no_pooling =
            || EmbedError::NoPooling { model: engine.gguf().path().display().to_string(), arch: config.arch.name };
        let pooling = pooling.or(config.pooling).ok_or_else(no_pooling)?;
        if pooling == Pooling::Rank {
            return Err(EmbedError::Rank);
        }
        let mut types: Vec<GgmlType> = Vec::new();
        engine.model().weights.formats().for_each(|ty| {
            if !types.contains(&ty) {
                types.push(ty)
            }
        });
        let forward = engine.decoder(&mut on_event)?.forward;
        Ok(Self { engine, forward, pooling, types })
    }

    /// The model and its tokenizer.
    pub fn model(&self) -> &Engine {
        &self.engine
    }
    /// The same, to share.
    pub fn shared_model(&self) -> Arc<Engine> {
        self.engine.clone()
    }
    /// Most tokens of a text.
    pub fn n_ctx(&self) -> usize {
        self.forward.n_ctx()
    }
    /// From hidden states to a vector.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }
    /// Elements of a vector.
    pub fn width(&self) -> usize {
        pooling::width(&self.engine.model().weights)
    }

    /// The vector of each text, not normalized ([`Normalize`]); with [`Pooling::None`] those of its tokens, one behind the
    /// other.
    ///
    /// # Errors
    /// A text that is too long, empty where the model puts nothing around it, or not in the vocabulary; the decoder's.
    pub fn embed(&mut self, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let tokenizer = self.engine.tokenizer();
        let tokens = |(text, of): (usize, &_)| {
            let tokens = tokenizer.encode(AsRef::<str>::as_ref(of), Encode::default());
            tokens.map_err(|error| EmbedError::Tokens { text, error })
        };
        let texts = texts.iter().enumerate().map(tokens).collect::<Result<Vec<_>, _>>()?;
        self.embed_tokens(&texts, &mut |_| ())
    }

    /// The same of texts as tokens; `watch` hears after each step how many tokens are done.
    ///
    /// # Errors
    /// As [`Embedder::embed`].
    pub fn embed_tokens(
        &mut self,
        texts: &[Vec<u32>],
        watch: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let n_ctx = self.forward.n_ctx();
        for (text, tokens) in texts.iter().enumerate() {
            if tokens.is_empty() {
                return Err(EmbedError::Empty { text });
            }
            if tokens.len() > n_ctx {
                let longer = self.engine.model().config.longest().is_none_or(|longest| n_ctx < longest);
                return Err(EmbedError::TooLong { text, tokens: tokens.len(), n_ctx, longer });
            }
        }
        let (mut out, mut done) = (Vec::with_capacity(texts.len()), 0);
        // A call before this one may have ended in the middle of a batch: a watch may unwind.
        self.forget();
        for range in self.batches(texts) {
            let vectors = self.batch(&texts[range], &mut |n| {
                done += n;
                watch(done);
            });
            self.forget();
            out.extend(vectors?);
        }
        match out.iter().position(|vector| !vector.iter().all(|x| x.is_finite())) {
            None => Ok(out),
            Some(text) => Err(EmbedError::NotFinite { text }),
        }
    }

    /// Keeps nothing of texts.
    fn forget(&mut self) {
        for seq in 0..TEXTS {
            self.forward.rewind(seq as u32, 0);
        }
    }

    /// Which texts go through the layers together: those that follow each other, as many as fill a step.
    fn batches(&self, texts: &[Vec<u32>]) -> Vec<Range<usize>> {
        let most = self.engine.options().n_ubatch;
        let mut batches: Vec<Range<usize>> = Vec::new();
        let mut tokens = 0;
        for (i, text) in texts.iter().enumerate() {
            match batches.last_mut() {
                Some(last) if last.len() < TEXTS && tokens + text.len() <= most && self.joins(text.len()) => {
                    last.end += 1
                }
                _ => {
                    batches.push(i..i + 1);
                    tokens = 0;
                }
            }
            // Nobody joins one that has to be alone.
            tokens += if self.joins(text.len()) { text.len() } else { most };
        }
        batches
    }

    /// Whether a text of `n` tokens has the same bits among others: products of few vectors with weights of 16 bits round
    /// otherwise than those of many, and an expert may get any number of a text's tokens.
    fn joins(&self, n: usize) -> bool {
        let routed = self.engine.model().config.layers.iter().any(|l| l.experts().is_some());
        let n = if routed { 1 } else { n };
        self.types.iter().all(|&ty| ComputeType::of(ty, n) == ComputeType::of(ty, usize::MAX))
    }

    /// One batch: each text in a sequence of its own. `watch` hears how many tokens a step had.
    fn batch(&mut self, texts: &[Vec<u32>], watch: &mut dyn FnMut(usize)) -> Result<Vec<Vec<f32>>, EmbedError> {
        let model = self.engine.model();
        let (n_embd, pooling) = (model.config.n_embd, self.pooling);
        let entries = texts.iter().enumerate().flat_map(|(seq, tokens)| {
            let wants = |pos| Output::logits_if(pooling::wants(pooling, pos, tokens.len()));
            let entry = move |(pos, &token): (usize, &u32)| Entry {
                token,
                pos: pos as u32,
                seq: seq as u32,
                output: wants(pos),
                drafted: false,
            };
            tokens.iter().enumerate().map(entry)
        });
        let entries: Vec<Entry> = entries.collect();
        // A text that is seen whole goes in one step, a long one of the others in several: few hidden states at once.
        let most = if model.config.is_bidirectional() { entries.len() } else { self.engine.options().n_ubatch };
        let mut pools: Vec<Pool> = texts.iter().map(|_| Pool::new(pooling, n_embd)).collect();
        for step in entries.chunks(most) {
            let hidden = self.forward.forward(step)?;
            let wanted = step.iter().filter(|e| e.output != Output::None);
            wanted.zip(hidden.chunks_exact(n_embd)).for_each(|(e, hidden)| pools[e.seq as usize].add(hidden));
            watch(step.len());
        }
        let arithmetic = self.engine.options().arithmetic;
        let dense =
            || pools.into_iter().map(|pool| pooling::dense(&model.weights, arithmetic, pool.finish())).collect();
        Ok(match self.forward.pool() {
            Some(pool) => pool.install(dense),
            None => dense(),
        })
    }
}
