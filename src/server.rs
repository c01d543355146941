//! `qrun serve`: one model behind HTTP, for many callers at once.
//!
//! A request's way: bytes → a dialect (`api/*`) → [`job::Ask`], one for all dialects → the generator's thread → chunks → the
//! dialect's answer, whole (`api/*`) or as it comes (`stream`). What every request must pass stands in `guard`, what a
//! connection must, in `connection`. Whoever goes away cancels: the job is dropped, and its sequence leaves before the next step.
//!
//! What this module deliberately does not know: layers, pages, batches. It prints nothing: lines for a log go to a function.

mod api;
mod body;
mod connection;
mod conversation;
mod error;
mod fields;
mod guard;
mod job;
mod key_folders;
mod listen;
mod log;
mod metrics;
mod openapi;
mod options;
mod page;
mod platform;
mod routes;
mod state;
mod stream;
mod timings;

pub use listen::{ServeError, serve};
pub use options::ServerOptions;
pub use platform::open_files;
pub use state::{Loaded, Log};
