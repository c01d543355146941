//! A second opinion on GGUF files: reads each with qrun-quant and with gguf-rs and compares metadata,
//! tensor directory and data.
//!
//! `cargo run -- FILES`; without files, those of tests/data and one with every metadata and tensor type
//! that is made here. What gguf-rs is known to get wrong, or not to know, is listed as data below.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail, ensure};
use qrun_quant::{
    GgmlType, Gguf,
    gguf::{Array, Tensor, Value, ValueType, write::Header},
};
use serde_json::Value as Json;

/// Formats whose sizes gguf-rs 0.1.8 computes with a wrong block: it takes every type from 10 on for
/// one of 256 elements, and an MXFP4 block for 273 bytes (ggml: 32 elements in 17 bytes).
const WRONG_SIZES: [GgmlType; 3] = [GgmlType::BF16, GgmlType::IQ4_NL, GgmlType::MXFP4];
/// Formats that gguf-rs 0.1.8 does not know: it reads no file with one of them.
const UNKNOWN: [GgmlType; 3] = [GgmlType::NVFP4, GgmlType::Q1_0, GgmlType::Q2_0];
/// What gguf-rs 0.1.8 has in the place of a float that JSON cannot say.
const NOT_FINITE: Json = Json::Null;

fn main() -> ExitCode {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let own = std::env::temp_dir().join(format!("second-opinion-{}.gguf", std::process::id()));
    if files.is_empty() {
        let made = everything(&own).context("making a file").and_then(|()| collect(&data(), &mut files));
        if let Err(e) = made {
            eprintln!("{e:#}");
            return ExitCode::FAILURE;
        }
        files.push(own.clone());
    }
    let mut failures = 0;
    for file in &files {
        match compare(file) {
            Ok(seen) => println!("{}: the same, {seen}", file.display()),
            Err(e) => {
                failures += 1;
                println!("{}: {e:#}", file.display());
            }
        }
    }
    let _ = fs::remove_file(own);
    println!("{} files, {failures} differ", files.len());
    if failures > 0 || files.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data")
}

/// All GGUF files under a folder.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "gguf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// A file with every metadata type and every tensor type that gguf-rs knows.
fn everything(path: &Path) -> Result<()> {
    let mut header = Header::new();
    let values: [Value; 14] = [
        u8::MAX.into(),
        i8::MIN.into(),
        u16::MAX.into(),
        i16::MIN.into(),
        u32::MAX.into(),
        i32::MIN.into(),
        u64::MAX.into(),
        i64::MIN.into(),
        0.1f32.into(),
        f32::NEG_INFINITY.into(),
        1e-300f64.into(),
        true.into(),
        "zażółć 🦀".into(),
        Array::of_strings(["", "▁a"]).into(),
    ];
    values.into_iter().enumerate().for_each(|(i, v)| header.set(format!("test.{i}"), v));
    header.set("general.alignment", 64u32);
    header.set("floats", Array::of(&[0.1f32, f32::NAN, -1.5]));
    header.set("integers", Array::of(&[i64::MIN, i64::MAX]));
    let known = GgmlType::all().filter(|ty| !UNKNOWN.contains(ty));
    known.for_each(|ty| header.tensor(format!("{ty}.weight"), ty, &[256, 3, 2]));
    let mut writer = header.create(path)?;
    for (i, t) in header.tensors.iter().enumerate() {
        writer.write(&vec![i as u8 + 1; t.ty.bytes_of(256 * 6)])?;
    }
    Ok(writer.finish()?)
}

/// Compares the two readings of a file; says how much was compared.
fn compare(path: &Path) -> Result<String> {
    let ours = Gguf::open(path)?;
    let name = path.to_str().context("a path in UTF-8")?;
    let theirs = gguf_rs::get_gguf_container_array_size(name, u64::MAX)?.decode()?;
    let shard = ours.u64("split.count")?.is_some_and(|n| n > 1);
    if shard {
        // gguf-rs reads a shard by itself; the further ones have metadata of their own.
        ensure!(theirs.tensors().len() <= ours.tensors().len(), "more tensors in a shard than in the model");
    } else {
        ensure!(theirs.alignment() == ours.alignment(), "alignment {} and {}", ours.alignment(), theirs.alignment());
        ensure!(theirs.metadata().len() == ours.metadata().len(), "other keys: {:?}", theirs.metadata().keys());
        ensure!(theirs.tensors().len() == ours.tensors().len(), "{} tensors by gguf-rs", theirs.tensors().len());
        for (key, value) in ours.metadata() {
            let found = theirs.metadata().get(key).with_context(|| format!("key {key}: not in gguf-rs"))?;
            same(value, found).with_context(|| format!("key {key}"))?;
        }
    }
    let bytes = fs::read(path)?;
    for t in theirs.tensors() {
        let own = ours.tensor(&t.name).with_context(|| format!("tensor {}: not in qrun", t.name))?;
        same_tensor(own, t, &bytes[theirs.data_offset() as usize..]).with_context(|| format!("tensor {}", t.name))?;
    }
    Ok(format!("{} keys, {} tensors", theirs.metadata().len(), theirs.tensors().len()))
}

fn same_tensor(own: &Tensor, other: &gguf_rs::Tensor, data: &[u8]) -> Result<()> {
    ensure!(own.ty as u32 == other.kind, "type {} and {}", own.ty, other.kind);
    ensure!(own.shape == other.shape, "shape {:?} and {:?}", own.shape, other.shape);
    let at = other.offset as usize;
    ensure!(data.get(at..at + own.data.len()) == Some(&own.data), "other bytes at offset {at}");
    let known = WRONG_SIZES.contains(&own.ty);
    ensure!((own.data.len() as u64 == other.size) != known, "{} bytes and {}", own.data.len(), other.size);
    Ok(())
}

fn same(own: &Value, other: &Json) -> Result<()> {
    let integer = |n: i128| other.to_string() == n.to_string();
    let equal = match own {
        Value::Str(s) => other.as_str() == Some(s.as_str()),
        Value::Bool(b) => other.as_bool() == Some(*b),
        Value::F32(v) if !v.is_finite() => *other == NOT_FINITE,
        Value::F64(v) if !v.is_finite() => *other == NOT_FINITE,
        Value::F32(v) => other.as_f64().map(|o| o as f32) == Some(*v),
        Value::F64(v) => other.as_f64() == Some(*v),
        Value::Array(a) => return same_array(a, other.as_array().context("no array in gguf-rs")?),
        Value::I8(v) => integer((*v).into()),
        Value::I16(v) => integer((*v).into()),
        Value::I32(v) => integer((*v).into()),
        Value::I64(v) => integer((*v).into()),
        unsigned => integer(unsigned.as_u64().context("no integer")?.into()),
    };
    if !equal {
        bail!("{} and {other}", own.describe());
    }
    Ok(())
}

fn same_array(own: &Array, other: &[Json]) -> Result<()> {
    ensure!(own.len == other.len(), "{} elements and {}", own.len, other.len());
    let equal = match own.ty {
        ValueType::Str => own.strings().zip(other).all(|(a, b)| b.as_str() == Some(a)),
        ValueType::Bool => own.numbers().zip(other).all(|(a, b)| b.as_bool() == Some(a != 0.0)),
        ValueType::Array => bail!("gguf-rs does not read arrays of arrays"),
        ValueType::F32 => own.numbers().zip(other).all(|(a, b)| match b.as_f64() {
            Some(b) => b as f32 == a as f32,
            None => !a.is_finite() && *b == NOT_FINITE,
        }),
        _ => own.numbers().zip(other).all(|(a, b)| b.as_f64() == Some(a)),
    };
    ensure!(equal, "other elements");
    Ok(())
}
