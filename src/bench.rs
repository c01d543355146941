//! Measures a model: what is run ([`suite`], [`run`]), by which clock ([`trial`]), beside which limit ([`limits`]), and
//! what is said of it ([`info`], [`report`], [`tables`], [`plot`]). [`rows`] are llama-bench's tests, [`prompts`] whole answers,
//! [`startup`] the time line of a start.

pub mod info;
pub mod limits;
pub mod machine;
pub mod plot;
pub mod prompts;
pub mod report;
pub mod rows;
pub mod run;
pub mod startup;
pub mod statistics;
pub mod suite;
pub mod tables;
pub mod trial;
