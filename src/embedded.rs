//! The model inside the program, for a start without a download.

/// The embedded GGUF file; `None` in builds without one.
pub fn model() -> Option<&'static [u8]> {
    None
}
