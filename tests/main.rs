//! The one integration binary.

mod formats;
mod quantize;
