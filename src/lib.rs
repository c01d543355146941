//! Text and people: from a model file and a prompt to an answer.
//!
//! What this crate deliberately does not know: kernels, block layouts. Outside of `cli` it prints nothing; it has no
//! allocator of its own, and without the features `cli` and `plot` no dependency that only a command line needs.
//!
//! | room | what |
//! |---|---|
//! | [`engine`] | a file to a decoder: where it runs, the memory it takes there |
//! | [`generate`] | the one loop: scheduler, sessions, the thread for many callers |
//! | [`embed`] | texts to vectors |
//! | [`text`] | tokenizers, chat templates, chats with tools and thoughts, grammars, stop strings |
//! | [`sampler`] | logits to tokens, with the specification that the GPU follows |
//! | [`tools`] | quantize, perplexity, models of random weights, two backends side by side |
//! | [`mod@bench`] | what `qrun bench` runs, by which clock, beside which limit |
//! | [`error`] | what went wrong, by kind |
//! | `download` | models by name: from a name to a file in the hub's cache (the feature `download`) |
//! | [`server`] | `qrun serve`: HTTP in front of the generator, in the dialects of others |
//! | `cli` | the program: its flags, its jobs, what a person sees (the feature `cli`) |
//!
//! Below it: `models` (architectures as data, the KV cache in pages, the forward pass on the CPU and on a GPU), `cuda` (a
//! device, its kernels, the emulated driver that runs them on a CPU), `quant` (GGUF files, block formats, CPU arithmetic).
//!
//! Decisions worth knowing:
//!
//! * The GGUF reader is our own: the crate `gguf-rs` switches on a serde_json feature for the whole program and computes
//!   wrong sizes for BF16 and others. It stays as the second opinion, in `tests/second-opinion`. The tokenizer is our own
//!   because building Gemma's 262,144 tokens took the `tokenizers` crate 0.8 s; that crate is the oracle of the tests and,
//!   as the feature `hf-tokenizer`, reads an external `tokenizer.json`.
//! * On a GPU a step of decoding is one recorded graph that is replayed at every position: tokens, positions and the
//!   samplers' states live on the device, which also samples the next tokens, and the host reads them one step behind.
//!   Nothing is allocated after load and nothing is waited for inside a step. The kernels are compiled by NVRTC 12.8 ahead
//!   of time, for each card from SM 7.5 on and as PTX for cards to come; CI compiles them again and compares the bytes.
//! * On a CPU, more than 12 tokens at a time meet BF16 and F16 weights as 16-bit integers with a scale per 32 columns: twice
//!   as fast as f32, and off by 10⁻⁴ of a product's norm. With these two types the last bits of a token depend on how many
//!   came with it; with quantized ones they never do.
//! * A file that shrinks while it is mapped can end the process (SIGBUS).

pub mod bench;
mod checksum;
#[cfg(feature = "cli")]
pub mod cli;
mod clock;
#[cfg(feature = "download")]
pub mod download;
pub mod embed;
pub mod embedded;
pub mod engine;
pub mod error;
pub mod generate;
#[cfg(any(feature = "cli", feature = "download"))]
mod nearest;
pub mod sampler;
#[cfg(feature = "server")]
pub mod server;
pub mod text;
pub mod tools;
