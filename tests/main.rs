//! The one integration binary.

mod cpu;
mod formats;
