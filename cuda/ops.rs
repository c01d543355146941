//! The typed launches: one file per family of kernels. Each chooses its grid and states shapes and units.

pub mod probe;
