//! Measures a model. Every mode makes one [`record`]: a JSON object that says what was measured where, with a list of rows;
//! [`mod@table`]s and [`plot`]s ask for its fields by name.
//!
//! | mode | a row is |
//! |---|---|
//! | [`rows`] | a test of llama-bench, with its columns |
//! | [`suite`] | a configuration of the public generation log, with its field names |
//! | [`prompts`] | whole answers to some prompts, at one batch size |
//! | [`requests`] | a request of a notebook, one after another |
//! | [`startup`] | a start of the program, step by step |
//!
//! A [`recipe`] is one of them with the settings of a published measurement, whose figures stand beside ours.
//!
//! All of them time a [`trial`] (or the scheduler's steps) and put the machine's [`limits`] beside it.

#[cfg(feature = "cli")]
pub mod child;
pub mod fields;
pub mod limits;
pub mod machine;
pub mod peers;
pub mod plot;
pub mod prompts;
pub mod recipe;
pub mod record;
pub mod report;
pub mod requests;
pub mod rows;
pub mod serve;
pub mod startup;
pub mod statistics;
pub mod suite;
pub mod table;
pub mod trial;

// What every mode uses.
pub use fields::{check, extended, list, number, quotient, text};
pub use limits::{CostModel, Limits};
pub use statistics::{deviation, mean, median, percentile, rate};
pub use table::{Column, cell, fixed, numbers, percent, plain, table};
pub use trial::{Job, Repeat, Tick, Trial};
