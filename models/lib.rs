//! Transformers as data.
//!
//! What this crate deliberately does not know: text, sampling policy, terminals.
