//! The demo model: 3.3 MB that a program has inside and answers from without a download. Its recipe and what it knows:
//! `models/demo/README.md`.

/// Aligned as tensors are in a mapped file.
#[repr(align(64))]
struct Aligned<T: ?Sized>(T);

static FILE: &Aligned<[u8]> = &Aligned(*include_bytes!("demo/qrun-demo-Q4_K_M.gguf"));

/// The GGUF file, whole.
pub fn file() -> &'static [u8] {
    &FILE.0
}
