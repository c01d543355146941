//! Compiles the CUDA kernels into the archive that the engine embeds, and checks what came out.
//!
//! ```text
//! cargo run --release -p qrun-kernels -- build    # cuda/kernels/*.cu -> cuda/kernels.zst
//! cargo run --release -p qrun-kernels -- check    # the same bytes again; spills, registers, PTX, SASS
//! ```
//! Both take `--install` (pinned wheels of NVIDIA's compiler into target/nvrtc, once) or `--nvrtc DIR`.

mod log;
mod make;
mod nvrtc;
mod tools;

use std::{
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result, bail};

use crate::{nvrtc::Nvrtc, tools::Tools};

const USAGE: &str = "usage: kernels build|check [--install] [--nvrtc DIR]";

struct Args {
    command: String,
    nvrtc: Option<PathBuf>,
    install: bool,
}

fn args() -> Result<Args> {
    let mut words = std::env::args().skip(1);
    let mut args = Args { command: words.next().context(USAGE)?, nvrtc: None, install: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--install" => args.install = true,
            "--nvrtc" => args.nvrtc = Some(words.next().context("--nvrtc DIR")?.into()),
            _ => bail!("unexpected {word}\n{USAGE}"),
        }
    }
    Ok(args)
}

fn run() -> Result<()> {
    let args = args()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    if args.install {
        tools::install(&root)?;
    }
    let tools = Tools::find(args.nvrtc, &root)?;
    let nvrtc = Nvrtc::open(&tools.nvrtc)?;
    let started = Instant::now();
    let modules = make::compile(&nvrtc, &root.join("cuda/kernels"))?;
    let archive = make::archive(&modules);
    let mut out = stdout().lock();
    writeln!(out, "{} modules, {} bytes, {:.1} s", modules.len(), archive.len(), started.elapsed().as_secs_f64())?;
    match args.command.as_str() {
        "build" => fs::write(root.join("cuda/kernels.zst"), archive)?,
        _ => bail!(USAGE),
    }
    Ok(())
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
