//! Circles that are still to be cut: the root of the crate, and the files. Only ever shorter.

/// The list.
pub const OPEN: &[(&str, &[&str])] = &[];
