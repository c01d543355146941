//! What is known of the shipped kernels and binary without running them.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use qrun_cuda::image;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// `cuda/sass.json`, which `kernels check` holds to the archive; here only that it is this archive's.
pub fn record() -> Result<Value> {
    let record: Value = serde_json::from_str(include_str!("../../../cuda/sass.json")).context("cuda/sass.json")?;
    let archive: String = Sha256::digest(image::ARCHIVE).iter().map(|b| format!("{b:02x}")).collect();
    ensure!(record["sha256"] == archive, "cuda/sass.json is of another archive: run `kernels build`");
    Ok(record)
}

/// `{format: {sm: count}}` as `{sm: {format: count}}`.
pub fn by_sm(by_format: &Value) -> Value {
    let mut by_sm = Map::new();
    for (format, row) in by_format.as_object().into_iter().flatten() {
        for (sm, count) in row.as_object().into_iter().flatten() {
            let row = by_sm.entry(format!("sm_{sm}")).or_insert_with(|| Map::new().into());
            row[format] = count.clone();
        }
    }
    by_sm.into()
}

/// Size of the release's qrun binary, made now where cargo started us; none where there is none.
pub fn binary_bytes() -> Result<Option<u64>> {
    let exe = env::current_exe()?;
    let target = exe.parent().and_then(Path::parent).context("a folder of cargo's")?;
    if let Some(cargo) = env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--package", "qrun", "--bin", "qrun"]);
        let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
        ensure!(status.success(), "building qrun: {status}");
    }
    Ok(fs::metadata(target.join("release/qrun")).ok().map(|m| m.len()))
}
