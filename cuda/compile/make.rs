//! Every kernel file for every target, and the archive of them.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, ensure};
use lzma_rust2::{LzmaOptions, LzmaWriter};
use qrun_cuda::image::{self, Image, Kind, Target};

use crate::{
    cache::{self, Cache, sha256},
    log::Resources,
    nvrtc::Nvrtc,
};

/// The ISA version that the PTX claims: CUDA 12.0's, so that every driver qrun accepts compiles it. Nothing in our
/// kernels needs a newer one; ptxas, which refuses what a version lacks, proves it (see `check`).
const PTX_VERSION: &str = "8.0";

/// A source and what it is compiled for.
pub type Job = (Target, PathBuf);

/// One file for one target.
pub struct Module {
    pub target: Target,
    pub image: Image,
    /// What ptxas said of each kernel; PTX has none.
    pub resources: Vec<Resources>,
}

/// The sources, in the order of their names.
///
/// # Errors
/// The folder cannot be read, or has no `.cu` file.
pub fn sources(kernels: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(kernels).with_context(|| kernels.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.map(|e| Ok(e?.path())).collect::<Result<_>>()?;
    files.retain(|p| p.extension().is_some_and(|e| e == "cu"));
    files.sort();
    ensure!(!files.is_empty(), "no .cu file in {}", kernels.display());
    Ok(files)
}

/// Each source for each target: what becomes a module.
///
/// # Errors
/// The folder cannot be read, or has no `.cu` file.
pub fn jobs(kernels: &Path) -> Result<Vec<Job>> {
    let sources = sources(kernels)?;
    Ok(image::targets().into_iter().flat_map(|t| sources.iter().map(move |s| (t, s.clone()))).collect())
}

/// Hash of all that modules are made of.
///
/// # Errors
/// A source, or a file that it includes, cannot be read.
pub fn hash(jobs: &[Job]) -> Result<String> {
    let keys: Vec<_> = jobs.iter().map(|(target, source)| cache::key(source, *target)).collect::<Result<_>>()?;
    Ok(sha256(keys.concat().as_bytes()))
}

/// Compiles on all processors; the result's order does not depend on who was first.
///
/// # Errors
/// The first that failed: a source cannot be read or does not compile, ptxas' log names no kernel of it, or its PTX
/// does not have one `.version`.
pub fn compile(nvrtc: &Nvrtc, cache: &Cache, jobs: &[Job]) -> Result<Vec<Module>> {
    let mut modules = on_all_processors(jobs, |(target, source)| one(nvrtc, cache, source, *target))?;
    modules.sort_by(|a, b| (a.target, &a.image.name).cmp(&(b.target, &b.image.name)));
    Ok(modules)
}

/// What `work` makes of each job, in no order.
///
/// # Errors
/// The first one, after all jobs.
pub fn on_all_processors<J: Sync, T: Send>(jobs: &[J], work: impl Fn(&J) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let thread = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(job);
            done.lock().expect("no panic in a thread").push(result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(thread);
        }
    });
    done.into_inner().expect("no panic in a thread").into_iter().collect()
}

fn one(nvrtc: &Nvrtc, cache: &Cache, source: &Path, target: Target) -> Result<Module> {
    let name = source.file_stem().context("a file name")?.to_string_lossy().into_owned();
    let compiled = cache.get(source, target, || nvrtc.compile(source, target))?;
    let bytes = match target.kind {
        Kind::Cubin => compiled.code,
        Kind::Ptx => lowered(&compiled.code)?,
    };
    let resources = Resources::of_log(&compiled.log)?;
    ensure!(target.kind == Kind::Ptx || !resources.is_empty(), "{name} for {target}: no kernel in ptxas' log");
    Ok(Module { target, image: Image { name, bytes, kind: target.kind }, resources })
}

/// A hint of newer versions that changes nothing: which bytes of a load are used.
const NEWER_HINT: &str = ".pragma \"used_bytes_mask";

/// PTX text with its `.version` lowered, without comments and newer hints, ended by one NUL.
fn lowered(ptx: &[u8]) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(ptx)?.trim_end_matches('\0');
    let mut versions = 0;
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|l| !l.starts_with("//") && !l.is_empty()) {
        if line.trim_start().starts_with(NEWER_HINT) {
            continue;
        }
        if line.starts_with(".version ") {
            versions += 1;
            out.push_str(&format!(".version {PTX_VERSION}\n"));
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    ensure!(versions == 1, "expected one .version line in PTX, found {versions}");
    out.push('\0');
    Ok(out.into_bytes())
}

/// Packs the modules, best compression: it is done once, and unpacking does not get slower by it.
pub fn archive(modules: &[Module]) -> Vec<u8> {
    let part = |t| (t, modules.iter().filter(|m| m.target == t).map(|m| m.image.clone()).collect());
    let targets = image::targets();
    let frames = targets.chunk_by(|a, b| image::alike(*a, *b)).map(|frame| frame.iter().copied().map(part).collect());
    image::write(&frames.collect::<Vec<image::Frame>>(), &|frames| {
        let numbered: Vec<_> = frames.iter().enumerate().collect();
        let packed = on_all_processors(&numbered, |(i, (kind, raw))| Ok((*i, compress(*kind, raw))));
        let mut packed = packed.expect("memory takes what is written");
        packed.sort_by_key(|(i, _)| *i);
        packed.into_iter().map(|(_, bytes)| bytes).collect()
    })
}

/// One frame, whose window reaches from a part of it into the one before. What is likely next depends on the place in an
/// instruction of 16 bytes; in text on nothing.
fn compress(kind: Kind, raw: &[u8]) -> Vec<u8> {
    let pb = if kind == Kind::Cubin { 4 } else { 0 };
    let nice_len = LzmaOptions::NICE_LEN_MAX;
    let options = LzmaOptions { dict_size: 32 << 20, pb, nice_len, depth_limit: 1000, ..LzmaOptions::with_preset(9) };
    let packed = LzmaWriter::new_use_header(Vec::new(), &options, Some(raw.len() as u64)).and_then(|mut writer| {
        writer.write_all(raw)?;
        writer.finish()
    });
    packed.expect("memory takes what is written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_lowered_and_ends_with_one_nul() {
        let text = b"//\n// Generated\n//\n\n.version 8.7\n.target sm_75\n.entry k()\n{\n\t.pragma \"used_bytes_mask 15\";\n\tret; // x\n}\n\0";
        let expected = ".version 8.0\n.target sm_75\n.entry k()\n{\n\tret; // x\n}\n\0";
        assert_eq!(String::from_utf8(lowered(text).expect("PTX")).expect("UTF-8"), expected);
        lowered(b".target sm_75\n").expect_err("no version");
    }
}
