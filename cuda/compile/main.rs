//! Compiles the CUDA kernels into the archive that the engine embeds, and checks what came out.
//!
//! ```text
//! cargo run --release -p qrun-kernels -- build    # cuda/kernels/*.cu -> cuda/kernels.lzma, cuda/sass.json
//! cargo run --release -p qrun-kernels -- check    # the same bytes again; spills, registers, PTX, SASS
//! cargo run --release -p qrun-kernels -- install  # pinned wheels of NVIDIA's compiler into target/nvrtc, once
//! ```
//! `build` and `check` take `--install`, which does that first, or `--nvrtc DIR`. `check --one-of N` compiles one module of N,
//! others for each archive; of the others it knows by the record that their sources have not changed.
//! `build` refuses code that needs more instructions per weight than the recorded one, or spills more registers, unless told
//! `--accept-worse`.

mod cache;
mod check;
mod listings;
mod log;
mod make;
mod nvrtc;
mod record;
mod sass;
mod tools;

use std::{
    fs,
    io::{Write, stdout},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{cache::Cache, make::Module, nvrtc::Nvrtc, record::Record, tools::Tools};

const USAGE: &str =
    "usage: kernels build [--accept-worse] or check [--one-of N], [--install] [--nvrtc DIR]; or kernels install";

struct Args {
    command: String,
    nvrtc: Option<PathBuf>,
    install: bool,
    accept_worse: bool,
    one_of: Option<NonZeroUsize>,
}

fn args() -> Result<Args> {
    let mut words = std::env::args().skip(1);
    let command = words.next().filter(|c| ["build", "check", "install"].contains(&c.as_str())).context(USAGE)?;
    let mut args = Args { command, nvrtc: None, install: false, accept_worse: false, one_of: None };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--install" => args.install = true,
            "--accept-worse" => args.accept_worse = true,
            "--one-of" if args.command == "check" => {
                args.one_of = Some(words.next().and_then(|n| n.parse().ok()).context("--one-of N, N from 1 on")?)
            }
            "--nvrtc" => args.nvrtc = Some(words.next().context("--nvrtc DIR")?.into()),
            _ => bail!("unexpected {word}\n{USAGE}"),
        }
    }
    Ok(args)
}

/// Everything that was made of the sources as they are.
struct Made {
    modules: Vec<Module>,
    archive: Vec<u8>,
    record: Record,
}

fn run() -> Result<()> {
    let args = args()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    if args.install || args.command == "install" {
        tools::install(&root)?;
    }
    if args.command == "install" {
        return Ok(());
    }
    let tools = Tools::find(args.nvrtc, &root)?;
    let cache = Cache(tools::target_folder(&root).join("kernels"));
    let paths = (root.join("cuda/kernels.lzma"), root.join("cuda/sass.json"));
    // One that an older version wrote is not in the way of a new one.
    let recorded = Record::read(&paths.1).or_else(|e| if args.accept_worse { Ok(None) } else { Err(e) })?;
    let jobs = make::jobs(&root.join("cuda/kernels"))?;
    let sources = make::hash(&jobs)?;
    let nvrtc = Nvrtc::open(&tools.nvrtc)?;
    let started = Instant::now();
    let mut out = stdout().lock();
    if let Some(n) = args.one_of {
        let recorded = recorded.context("cuda/sass.json is missing: run `kernels build` and commit it")?;
        let modules = make::compile(&nvrtc, &cache, &check::choose(jobs, n, &recorded.sha256))?;
        writeln!(out, "{} modules, compiled in {:.1} s", modules.len(), started.elapsed().as_secs_f64())?;
        let mut wrong = check::against(&modules, &fs::read(paths.0)?, &sources, &recorded)?;
        wrong.extend(check::each(&modules, &tools, &Scratch::new()?.0)?);
        return verdict(&wrong);
    }
    let modules = make::compile(&nvrtc, &cache, &jobs)?;
    let seconds = started.elapsed().as_secs_f64();
    let archive = make::archive(&modules);
    let record = Record::of(&modules, &archive, sources, &tools, &tools::target_folder(&root).join("listings"))?;
    writeln!(
        out,
        "{} kernels, {} modules, {} bytes, sha256 {}, compiled in {seconds:.1} s",
        record.registers.len(),
        modules.len(),
        archive.len(),
        record.sha256
    )?;
    let made = Made { modules, archive, record };
    let worse = recorded.as_ref().map(|r| made.record.worse_than(r)).unwrap_or_default();
    if args.command == "check" {
        return check(&made, &paths.0, recorded.as_ref(), &tools, &Scratch::new()?.0);
    }
    if !worse.is_empty() && !args.accept_worse {
        bail!("worse than recorded (--accept-worse records it all the same):\n  {}", worse.join("\n  "));
    }
    fs::write(paths.0, &made.archive)?;
    fs::write(paths.1, made.record.text())?;
    Ok(())
}

fn check(made: &Made, archive: &Path, recorded: Option<&Record>, tools: &Tools, scratch: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    if fs::read(archive)? != made.archive {
        wrong.push("cuda/kernels.lzma is not what the sources give: run `kernels build` and commit it".into());
    }
    match recorded {
        Some(r) if *r == made.record => {}
        Some(r) => {
            wrong.push("cuda/sass.json is not what the sources give: run `kernels build` and commit it".into());
            wrong.extend(made.record.worse_than(r));
        }
        None => wrong.push("cuda/sass.json is missing: run `kernels build` and commit it".into()),
    }
    wrong.extend(check::each(&made.modules, tools, scratch)?);
    verdict(&wrong)
}

fn verdict(wrong: &[String]) -> Result<()> {
    ensure!(wrong.is_empty(), "the kernels:\n  {}", wrong.join("\n  "));
    writeln!(stdout(), "same bytes, no spills, registers within their caps, PTX assembles with CUDA 12.4")?;
    Ok(())
}

/// A folder of this process, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("qrun-kernels-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}
