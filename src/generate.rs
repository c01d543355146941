//! From requests to text: the one loop that runs a model.
//!
//! A [`Scheduler`] takes requests, steps all of their sequences together, and gives events; sequences join and leave
//! between steps. A [`Session`] is one conversation on it, a [`Generator`] puts it on a thread of its own for many callers.
//! The text of a request is what it would be alone: not changed by what runs beside it, by what the prefix cache held, nor
//! by being put back for want of pages. (With quantized weights to the bit. With F16 and BF16 weights the CPU rounds
//! differently, by 10⁻⁴, in steps of more than 12 rows; with weights that are not quantized a GPU adds in another order in steps
//! of more than 4 sequences, and where an answer is computed again as a part of the prompt.) Nor does it depend on what a [`Drafter`]
//! guesses: that changes how many steps it takes.

mod answer;
mod drafts;
mod pace;
mod plan;
mod probs;
mod request;
mod saved;
mod scheduler;
mod sequence;
mod session;
mod snapshot;
mod stats;
mod thread;
mod timings;

pub use drafts::{Drafter, HeadDrafter, NGramDrafter, Wanted};
pub use plan::StepRows;
pub use request::{Cancel, Event, Finish, GenerateError, Reply, Request, RequestId, TokenProbs};
pub use saved::{Draft, SaveError, Saved, may_be_replaced, may_be_saved_to};
pub use scheduler::{Clock, Finished, Recover, Scheduler, Watch};
pub use session::Session;
pub use snapshot::Loaded;
pub use stats::{RequestState, Stats, StatsReader};
pub use thread::{Between, Chunk, Generator, Reopen, Sink, Stream};
pub use timings::Timings;
