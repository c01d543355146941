//! Models in several files.

use std::path::{Path, PathBuf};

use qrun_quant::{GgmlType, Gguf, gguf::write::Header};

use super::write;

/// What shard `no` of three says.
fn header(no: usize) -> Header {
    let mut h = Header::new();
    if no == 0 {
        h.set("general.architecture", "llama");
        h.set("llama.block_count", 3u32);
    }
    h.set("split.no", no as u16);
    h.set("split.count", 3u16);
    h.set("split.tensors.count", 6i32);
    // Shards may be aligned as they like.
    h.set("general.alignment", [32u32, 64, 8][no]);
    h.tensor(format!("t{no}.a"), GgmlType::F32, &[4, 1 + no as u64]);
    h.tensor(format!("t{no}.b"), GgmlType::F16, &[3]);
    h
}

fn path(dir: &Path, no: usize) -> PathBuf {
    dir.join(format!("m-{:05}-of-00003.gguf", no + 1))
}

/// Three shards in a directory of their own, changed by `change(no, header)`.
fn shards(change: impl Fn(usize, &mut Header)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for no in 0..3 {
        let mut h = header(no);
        change(no, &mut h);
        write(&h, &path(dir.path(), no));
    }
    dir
}

#[test]
fn any_shard_opens_the_whole_model() {
    let dir = shards(|_, _| {});
    let bytes: u64 = (0..3).map(|no| path(dir.path(), no).metadata().unwrap().len()).sum();
    for no in 0..3 {
        let gguf = Gguf::open(&path(dir.path(), no)).unwrap();
        assert_eq!(gguf.path(), path(dir.path(), no));
        let names: Vec<&str> = gguf.tensors().iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["t0.a", "t0.b", "t1.a", "t1.b", "t2.a", "t2.b"]);
        assert_eq!(gguf.tensor("t2.a").unwrap().data.len(), 48);
        assert_eq!(gguf.u64("llama.block_count").unwrap(), Some(3), "the metadata of the first shard");
        assert_eq!(gguf.file_bytes(), bytes);
    }
}

/// How a shard is made wrong.
type Change = fn(usize, &mut Header);

#[test]
fn what_does_not_fit_together_is_named() {
    let cases: [(Change, usize, &str); 9] = [
        (
            |no, h| {
                if no == 1 {
                    h.set("split.no", 0u16)
                }
            },
            0,
            "m-00002-of-00003.gguf: key split.no: expected 1, by the name of the file, found 0",
        ),
        (
            |no, h| {
                if no == 2 {
                    h.set("split.no", 7u16)
                }
            },
            0,
            "m-00003-of-00003.gguf: key split.no: expected the number of this shard, 0 to 2, found 7",
        ),
        (
            |no, h| {
                if no == 1 {
                    h.metadata.retain(|(k, _)| k != "split.no")
                }
            },
            1,
            "m-00002-of-00003.gguf: key split.no: expected the number of this shard, 0 to 2, found no such key",
        ),
        (
            |no, h| {
                if no == 1 {
                    h.set("split.count", 4u16)
                }
            },
            0,
            "m-00002-of-00003.gguf: key split.count: expected 3, as in DIR/m-00001-of-00003.gguf, found 4",
        ),
        (
            |no, h| {
                if no == 2 {
                    h.metadata.retain(|(k, _)| k != "split.count")
                }
            },
            0,
            "m-00003-of-00003.gguf: key split.count: expected 3, as in DIR/m-00001-of-00003.gguf, found no such key",
        ),
        (
            |no, h| {
                if no == 1 {
                    h.tensors[0].name = "t0.a".into()
                }
            },
            0,
            "m-00001-of-00003.gguf: tensor t0.a: expected each tensor in one shard, found the name in two shards",
        ),
        (
            |_, h| h.set("split.tensors.count", 7i32),
            0,
            "m-00001-of-00003.gguf: key split.tensors.count: expected 7 tensors, found 6 in 3 shards",
        ),
        (
            |no, h| {
                if no == 2 {
                    h.set("general.architecture", "qwen3")
                }
            },
            0,
            "m-00003-of-00003.gguf: key general.architecture: expected \"llama\", as in the first shard, found \"qwen3\"",
        ),
        (
            |no, h| {
                if no == 0 {
                    h.set("split.count", 1u64 << 63)
                }
            },
            0,
            "m-00001-of-00003.gguf: key split.count: expected at most 99999 shards, found 9223372036854775808",
        ),
    ];
    for (change, open, expected) in cases {
        let dir = shards(change);
        let e = Gguf::open(&path(dir.path(), open)).map(|_| ()).unwrap_err().to_string();
        let e = e.replace(&dir.path().display().to_string(), "DIR");
        assert_eq!(e, format!("DIR/{expected}"));
    }
}

#[test]
fn missing_and_renamed_shards_are_named() {
    let dir = shards(|_, _| {});
    let text = |path: &Path| {
        let e = Gguf::open(path).map(|_| ()).unwrap_err().to_string();
        e.replace(&dir.path().display().to_string(), "DIR")
    };
    let renamed = dir.path().join("model.gguf");
    std::fs::rename(path(dir.path(), 1), &renamed).unwrap();
    assert_eq!(
        text(&path(dir.path(), 0)),
        "DIR/m-00001-of-00003.gguf: shard 2 of 3: expected the file DIR/m-00002-of-00003.gguf, found no such file"
    );
    assert_eq!(
        text(&renamed),
        "DIR/model.gguf: shard 2 of 3: expected a name that ends in -00002-of-00003.gguf (shards are found by their \
         names), found model.gguf"
    );
    // A shard that leads back to the first one.
    std::fs::copy(path(dir.path(), 0), path(dir.path(), 1)).unwrap();
    assert_eq!(
        text(&path(dir.path(), 0)),
        "DIR/m-00002-of-00003.gguf: key split.no: expected 1, by the name of the file, found 0"
    );
    let bytes = std::fs::read(path(dir.path(), 2)).unwrap();
    let e = super::read(&bytes).map(|_| ()).unwrap_err().to_string();
    assert_eq!(e, "bad.gguf: key split.count: expected a model in one piece, found one of 3 shards");
}
