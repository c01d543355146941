//! The model inside the program, for a start without a download.

/// The embedded GGUF file: the demo model, whose recipe is in `models/demo`.
pub fn model() -> Option<&'static [u8]> {
    Some(qrun_models::demo::file())
}
