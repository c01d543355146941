//! The one integration binary.

mod formats;
