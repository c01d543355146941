//! `qrun pull`, `qrun models`, `qrun rm`: models by name.

use std::{
    fmt::Write as _,
    io::{Write, stdout},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    exit::{Code, Exit},
    interrupt,
    named::fetching::{exit, fetch},
    progress,
    stdout::print,
};
use crate::{
    download::{self, ALIASES, DownloadError, Progress, Wanted},
    engine::plan::human_bytes,
};

/// Fetches a model into the cache; its path goes to stdout.
#[derive(Debug, clap::Args)]
pub struct Pull {
    /// USER/REPO[:TAG], an alias (qrun models --aliases), hf.co/…, ms:…, ollama://… or the URL of a .gguf file
    #[arg(value_name = "NAME", required_unless_present = "check")]
    name: Option<String>,
    /// The file in the repository, in place of the tag's
    #[arg(long)]
    file: Option<String>,
    /// Branch, tag or commit [main]
    #[arg(long)]
    revision: Option<String>,
    /// Use no network: only say where the model is
    #[arg(long)]
    offline: bool,
    /// Progress and path as JSON lines on stdout
    #[arg(long)]
    json: bool,
    /// Ask the hub whether it has what the aliases stand for; fetches nothing
    #[arg(long, conflicts_with_all = ["name", "file", "revision", "offline", "json"])]
    check: bool,
}

/// The models that were fetched.
#[derive(Debug, clap::Args)]
pub struct Models {
    /// The short names, and what each stands for
    #[arg(long)]
    aliases: bool,
    /// One JSON array
    #[arg(long)]
    json: bool,
}

/// Removes a model that was fetched.
#[derive(Debug, clap::Args)]
pub struct Rm {
    /// With a tag or a file that file, without one all files of the repository
    name: String,
}

impl Pull {
    /// Fetches the model and prints its path; without a name asks the hub for every alias.
    ///
    /// # Errors
    /// Exit code 6: it was not fetched; without a name: an alias stands for nothing that the hub has. 3: it is none
    /// that qrun runs. 2: the word is no name.
    pub fn run(self) -> Result<(), Exit> {
        let Some(name) = &self.name else { return check() };
        let wanted = Wanted {
            file: self.file.clone(),
            revision: self.revision.clone(),
            offline: self.offline,
            ..Wanted::named(name)
        };
        let path = if self.json { fetch_as_json(&wanted)? } else { fetch(&wanted, true)? };
        if self.json { line(&json!({ "path": path })) } else { print(&format!("{}\n", path.display())) }
    }
}

impl Models {
    /// Prints the models in the cache, or the short names.
    ///
    /// # Errors
    /// As of [`listing`]; 1: stdout fails.
    pub fn run(self) -> Result<(), Exit> {
        match (self.aliases, self.json) {
            (true, true) => {
                let row = |a: &download::Alias| json!({ "alias": a.name, "repo": a.repo, "tag": a.tag, "architecture": a.arch, "seen": a.seen });
                print(&format!("{}\n", Value::from(ALIASES.iter().map(row).collect::<Vec<_>>())))
            }
            (true, false) => {
                let row = |a: &download::Alias| format!("{:<22} {}:{}\n", a.name, a.repo, a.tag);
                print(&ALIASES.iter().map(row).collect::<String>())
            }
            (false, true) => {
                let row = |c: &download::Cached| json!({ "name": c.name, "file": c.file, "commit": c.commit, "bytes": c.bytes, "path": c.path });
                let rows: Vec<Value> = download::cached(None).map_err(exit)?.iter().map(row).collect();
                print(&format!("{}\n", Value::from(rows)))
            }
            (false, false) => print(&listing()?),
        }
    }
}

impl Rm {
    /// Removes it, and says how much that was.
    ///
    /// # Errors
    /// Exit code 6: the cache has nothing of this name, or cannot be changed. 2: the word is no name.
    pub fn run(self) -> Result<(), Exit> {
        let removed = download::remove(&self.name, None).map_err(exit)?;
        progress::done(&format!("{}: {} files, {}", self.name, removed.files, human_bytes(removed.bytes)));
        Ok(())
    }
}

/// The models in the cache, one a line.
///
/// # Errors
/// Exit code 6: the cache cannot be read. 2: there is no folder for one.
pub fn listing() -> Result<String, Exit> {
    let models = download::cached(None).map_err(exit)?;
    let mut text = String::new();
    for model in &models {
        let _ = writeln!(text, "{}:{}  {}", model.name, model.file, human_bytes(model.bytes));
    }
    if models.is_empty() {
        text.push_str("no models in the cache; qrun pull NAME fetches one (qrun models --aliases lists short names)\n");
    }
    Ok(text)
}

fn line(value: &Value) -> Result<(), Exit> {
    let mut out = stdout().lock();
    writeln!(out, "{value}").and_then(|()| out.flush()).map_err(Exit::from)
}

/// As [`fetch`], with a line on stdout for every file, and then twice a second.
fn fetch_as_json(wanted: &Wanted) -> Result<std::path::PathBuf, Exit> {
    interrupt::watch()?;
    let mut last: Option<(Progress, Instant)> = None;
    let fetched = download::fetch(wanted, &mut |at| {
        let due = last.as_ref().is_none_or(|(before, when)| {
            before.file != at.file || Some(at.done) == at.total || when.elapsed() >= Duration::from_millis(500)
        });
        let new = last.as_ref().is_none_or(|(before, _)| *before != at);
        if due && new {
            // Who does not read any more wants it to end.
            if line(&json!({ "file": at.file, "done": at.done, "total": at.total })).is_err() {
                return ControlFlow::Break(());
            }
            last = Some((at, Instant::now()));
        }
        ControlFlow::Continue(())
    });
    fetched.map_err(exit)
}

/// Asks for the listing of every alias: for the table's column `seen`.
fn check() -> Result<(), Exit> {
    interrupt::watch()?;
    let store = download::Store::of_environment();
    let mut missing = 0;
    for alias in ALIASES {
        let said = match store.has(&Wanted::named(alias.name)) {
            Ok(file) => file,
            Err(error @ DownloadError::Network { .. }) => return Err(exit(error)),
            Err(error) => {
                missing += usize::from(!matches!(error, DownloadError::Unsupported { .. }));
                error.to_string()
            }
        };
        print(&format!("{:<22} {said}\n", alias.name))?;
    }
    match missing {
        0 => Ok(()),
        n => Err(Exit::new(Code::NotFetched, format!("{n} aliases stand for files that the hub does not have"))),
    }
}
