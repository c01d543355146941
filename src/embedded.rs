//! The model inside the program, for a start without a download.

/// Aligned as tensors are in a mapped file.
#[repr(align(64))]
struct Aligned<T: ?Sized>(T);

static DEMO: &Aligned<[u8]> = &Aligned(*include_bytes!("../models/demo/qrun-demo-Q4_K_M.gguf"));

/// The embedded GGUF file: the demo model, whose recipe is in `models/demo`.
pub fn model() -> Option<&'static [u8]> {
    Some(&DEMO.0)
}
