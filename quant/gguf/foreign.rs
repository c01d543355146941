//! What a file is that is not GGUF: the usual mistakes, by their first bytes.

/// The usual mistakes: how such a file begins, and what to say.
const KINDS: &[(&[u8], &str)] = &[
    (b"version https://git-lfs", "a Git LFS pointer in place of the model (run `git lfs pull`)"),
    (b"<!doctype", "a web page (download the file itself, not its page)"),
    (b"<html", "a web page (download the file itself, not its page)"),
    (b"PK\x03\x04", "a zip archive or PyTorch checkpoint (convert it to GGUF)"),
    (b"\x1f\x8b", "a gzip archive (unpack it)"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive (unpack it)"),
    (b"lmgg", "a GGML file of before GGUF (convert it to GGUF)"),
    (b"fmgg", "a GGML file of before GGUF (convert it to GGUF)"),
    (b"tjgg", "a GGML file of before GGUF (convert it to GGUF)"),
    (b"\x89hdf", "an HDF5 file (convert it to GGUF)"),
    (b"\x7felf", "a program"),
    (b"{", "JSON (the model file is another one)"),
];

/// Describes the start of a file that should be GGUF and is not.
pub fn describe(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(64)];
    let lower = start.trim_ascii_start().to_ascii_lowercase();
    if let Some((_, what)) = KINDS.iter().find(|(magic, _)| lower.starts_with(&magic.to_ascii_lowercase())) {
        return (*what).into();
    }
    // Safetensors: the length of a JSON header, then the header.
    if let Some((length, rest)) = start.split_first_chunk::<8>()
        && u64::from_le_bytes(*length) < bytes.len() as u64
        && rest.starts_with(b"{")
    {
        return "a safetensors file (convert it to GGUF)".into();
    }
    if start.iter().all(|&b| b == 0) {
        return "zeros (is the download complete?)".into();
    }
    format!("\"{}\"", start[..start.len().min(4)].escape_ascii())
}

/// Describes a version that is not read.
pub fn version(n: u32) -> String {
    match n {
        1 => "version 1 (of 2023; convert the model again)".into(),
        _ if (2..=3).contains(&n.swap_bytes()) => format!("version {} of a big-endian file", n.swap_bytes()),
        _ => format!("version {n}"),
    }
}
