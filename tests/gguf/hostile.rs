//! Files that lie: each gets an error that names the file, the place, what was expected and what was
//! found.

use qrun_quant::Gguf;

use super::{read, small};

/// A GGUF file put together by hand, so that it can say anything.
struct Raw {
    version: u32,
    /// Key, type number, bytes of the value.
    keys: Vec<(&'static [u8], u32, Vec<u8>)>,
    /// Name, dimensions, type number, offset.
    tensors: Vec<(&'static str, Vec<u64>, u32, u64)>,
    data: usize,
    /// Counts to write in place of the true ones.
    n_tensors: Option<u64>,
    n_keys: Option<u64>,
}

const RAW: Raw = Raw { version: 3, keys: vec![], tensors: vec![], data: 0, n_tensors: None, n_keys: None };

impl Raw {
    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.n_tensors.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.n_keys.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for (key, ty, value) in &self.keys {
            out.extend((key.len() as u64).to_le_bytes());
            out.extend(*key);
            out.extend(ty.to_le_bytes());
            out.extend(value);
        }
        for (name, dims, ty, offset) in &self.tensors {
            out.extend((name.len() as u64).to_le_bytes());
            out.extend(name.as_bytes());
            out.extend((dims.len() as u32).to_le_bytes());
            out.extend(dims.iter().flat_map(|d| d.to_le_bytes()));
            out.extend(ty.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        if self.data > 0 {
            out.resize(out.len().next_multiple_of(32) + self.data, 0);
        }
        out
    }
}

fn key(key: &'static [u8], ty: u32, value: impl Into<Vec<u8>>) -> Raw {
    Raw { keys: vec![(key, ty, value.into())], ..RAW }
}

fn tensor(dims: &[u64], ty: u32, offset: u64) -> Raw {
    Raw { tensors: vec![("w", dims.to_vec(), ty, offset)], data: 64, ..RAW }
}

/// An array value: element type, length, bytes.
fn array(ty: u32, len: u64, bytes: &[u8]) -> Vec<u8> {
    [&ty.to_le_bytes()[..], &len.to_le_bytes(), bytes].concat()
}

fn depth_bomb(depth: usize) -> Vec<u8> {
    let inner = array(4, 0, &[]);
    [array(9, 1, &[]).repeat(depth), inner].concat()
}

const HUGE: u64 = 1 << 63;

#[test]
fn each_lie_is_named() {
    let text = |n: u64, s: &[u8]| [&n.to_le_bytes()[..], s].concat();
    #[rustfmt::skip]
    let cases: Vec<(Raw, &str)> = vec![
        (Raw { version: 1, ..RAW }, "header: expected GGUF version 2 or 3, found version 1 (of 2023; convert the model again)"),
        (Raw { version: 4, ..RAW }, "header: expected GGUF version 2 or 3, found version 4"),
        (Raw { version: 3 << 24, ..RAW }, "header: expected GGUF version 2 or 3, found version 3 of a big-endian file"),
        (Raw { n_keys: Some(HUGE), ..RAW }, "header: expected at most 16384 metadata keys, found 9223372036854775808"),
        (Raw { n_tensors: Some(HUGE), ..RAW }, "header: expected at most 65536 tensors, found 9223372036854775808"),
        (Raw { n_keys: Some(1), ..RAW }, "metadata key number 0 of 1: expected 8 more bytes at offset 24, found 0 bytes to the end of the file (is the download complete?)"),
        (Raw { n_tensors: Some(1), ..RAW }, "tensor number 0 of 1: expected 8 more bytes at offset 24, found 0 bytes to the end of the file (is the download complete?)"),
        (key(b"k", 13, []), "key k: expected a metadata type from 0 to 12, found 13"),
        (key(b"k", 8, text(HUGE, b"")), "key k: expected at most 0 bytes of text in the rest of the file, found 9223372036854775808"),
        (key(b"k", 8, text(2, b"\xFFa")), "key k: expected UTF-8 text, found \"\u{FFFD}a\""),
        (key(b"\xFF", 4, []), "metadata key number 0 of 1: expected UTF-8 text, found \"\u{FFFD}\""),
        (key(b"\x1b[2J", 13, []), "key \\u{1b}[2J: expected a metadata type from 0 to 12, found 13"),
        (key(b"k", 9, array(4, HUGE, &[0; 4])), "key k: expected at most 1 values in the rest of the file, found 9223372036854775808"),
        (key(b"k", 9, array(8, HUGE, &[0; 8])), "key k: expected at most 1 strings in the rest of the file, found 9223372036854775808"),
        (key(b"k", 9, array(9, HUGE, &[0; 12])), "key k: expected at most 1 arrays in the rest of the file, found 9223372036854775808"),
        (key(b"k", 9, array(8, 1, &text(1, b"\xC3"))), "key k element 0: expected UTF-8 text, found \"\u{FFFD}\""),
        (key(b"k", 9, depth_bomb(1000)), "key k: expected arrays nested at most 8 deep, found a deeper one"),
        (Raw { keys: vec![(b"k", 0, vec![1]), (b"k", 0, vec![2])], ..RAW }, "key k: expected each key once, found the key a second time"),
        (key(b"general.alignment", 4, [0; 4]), "key general.alignment: expected a power of two from 8 to 1048576, found 0"),
        (key(b"general.alignment", 4, 24u32.to_le_bytes()), "key general.alignment: expected a power of two from 8 to 1048576, found 24"),
        (key(b"general.alignment", 4, (1u32 << 31).to_le_bytes()), "key general.alignment: expected a power of two from 8 to 1048576, found 2147483648"),
        (key(b"general.alignment", 8, text(2, b"32")), "key general.alignment: expected a power of two from 8 to 1048576, found string \"32\""),
        (tensor(&[], 0, 0), "tensor w: expected 1 to 4 dimensions, found 0"),
        (tensor(&[1; 5], 0, 0), "tensor w: expected 1 to 4 dimensions, found 5"),
        (tensor(&[4, 0], 0, 0), "tensor w: expected dimensions above zero, found [4, 0]"),
        (tensor(&[33], 8, 0), "tensor w: expected rows of a multiple of 32 elements (Q8_0), found [33]"),
        (tensor(&[HUGE, 2], 0, 0), "tensor w: expected a size below 2^64 bytes, found dimensions [9223372036854775808, 2]"),
        (tensor(&[HUGE], 0, 0), "tensor w: expected a size below 2^64 bytes, found dimensions [9223372036854775808]"),
        (tensor(&[17], 0, 0), "tensor w: expected 68 bytes at offset 0 of the data, found only 64 bytes of data (is the download complete?)"),
        (tensor(&[4], 0, 64), "tensor w: expected 16 bytes at offset 64 of the data, found only 64 bytes of data (is the download complete?)"),
        (tensor(&[4], 0, u64::MAX - 31), "tensor w: expected 16 bytes at offset 18446744073709551584 of the data, found only 64 bytes of data (is the download complete?)"),
        (tensor(&[4], 0, 4), "tensor w: expected an offset that is a multiple of 32, found 4"),
        (Raw { tensors: vec![("a", vec![9], 0, 0), ("b", vec![4], 0, 32)], data: 64, ..RAW }, "tensor b: expected data behind that of tensor a, which ends at byte 132 of the file, found data from byte 128 on"),
        (Raw { tensors: vec![("a", vec![4], 0, 0), ("a", vec![4], 0, 32)], data: 64, ..RAW }, "tensor a: expected each tensor name once, found the name a second time"),
    ];
    for (raw, expected) in cases {
        let e = read(&raw.bytes()).map(|_| ()).unwrap_err().to_string();
        assert_eq!(e, format!("bad.gguf: {expected}"));
    }
    let e = read(&tensor(&[4], 99, 0).bytes()).map(|_| ()).unwrap_err().to_string();
    assert!(
        e.starts_with("bad.gguf: tensor w: expected a format qrun knows (F32 ") && e.ends_with("found type 99"),
        "{e}"
    );
    let e = read(&tensor(&[4], 15, 0).bytes()).map(|_| ()).unwrap_err().to_string();
    assert!(e.ends_with("found Q8_K (type 15)"), "{e}");
}

#[test]
fn what_others_accept_is_accepted() {
    // Any byte but 0 is true.
    let gguf = read(&key(b"k", 7, [7]).bytes()).unwrap();
    assert_eq!(gguf.bool("k").unwrap(), Some(true));
    // No padding behind the last tensor; data in another order than the directory.
    let raw = Raw { tensors: vec![("b", vec![3], 0, 32), ("a", vec![1], 0, 0)], data: 44, ..RAW };
    let gguf = read(&raw.bytes()).unwrap();
    assert_eq!(gguf.tensors().iter().map(|t| t.data.len()).collect::<Vec<_>>(), [12, 4]);
    // Eight levels of arrays.
    assert!(read(&key(b"k", 9, depth_bomb(7)).bytes()).is_ok());
    assert!(read(&key(b"k", 9, depth_bomb(8)).bytes()).is_err());
}

#[test]
fn other_kinds_of_files_are_recognized() {
    let safetensors = [&20u64.to_le_bytes()[..], b"{\"w\":{\"dtype\":\"F32\"}}"].concat();
    let cases: [(&[u8], &str); 9] = [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
            "a Git LFS pointer in place of the model (run `git lfs pull`)",
        ),
        (b"\n<!DOCTYPE html><html>", "a web page (download the file itself, not its page)"),
        (b"PK\x03\x04....", "a zip archive or PyTorch checkpoint (convert it to GGUF)"),
        (b"lmgg....", "a GGML file of before GGUF (convert it to GGUF)"),
        (&safetensors, "a safetensors file (convert it to GGUF)"),
        (b"{\"architectures\": []}", "JSON (the model file is another one)"),
        (&[0; 100], "zeros (is the download complete?)"),
        (b"ggUF\x03\0\0\0", "\"ggUF\""),
        (b"\x1b[2J", "\"\\x1b[2J\""),
    ];
    for (bytes, found) in cases {
        let e = read(bytes).map(|_| ()).unwrap_err();
        assert_eq!(e.to_string(), format!("bad.gguf: header: expected the magic bytes \"GGUF\", found {found}"));
    }
}

#[test]
fn places_that_are_no_file_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let e = Gguf::open(&dir.path().join(name)).map(|_| ()).unwrap_err();
        (e.place, e.expected, e.found)
    };
    std::fs::write(dir.path().join("empty.gguf"), []).unwrap();
    std::fs::create_dir(dir.path().join("dir.gguf")).unwrap();
    assert_eq!(open("empty.gguf"), ("file".into(), "a GGUF file".into(), "an empty file".into()));
    assert_eq!(open("dir.gguf"), ("file".into(), "a GGUF file".into(), "a directory".into()));
    let (place, expected, found) = open("none.gguf");
    assert_eq!((place.as_str(), expected.as_str()), ("file", "a readable file"));
    assert!(found.contains("os error 2"), "{found}");
}

#[test]
fn every_truncation_is_an_error() {
    let file = small();
    let whole = read(&file).unwrap();
    assert_eq!(whole.tensors().len(), 2);
    for n in 0..file.len() {
        let e = read(&file[..n]).map(|_| ()).expect_err("a truncated file").to_string();
        assert!(e.starts_with("bad.gguf: ") && e.contains(": expected ") && e.contains(", found "), "{n}: {e}");
    }
}
