//! The one integration binary.

mod sampler;
mod stop;
mod template;
