//! From what was typed for a model to a file: a path as it is, a name through the cache, and only for a name the network.

use std::path::{Path, PathBuf};

use super::{args::Args, exit::Exit, terminal::Terminal};

/// The model that the flags name, as a file; `None` where they name none.
///
/// # Errors
/// Exit code 2: two models are named. Else as of [`fetching::get`], for a name.
pub fn model(args: &Args, terminal: &Terminal) -> Result<Option<PathBuf>, Exit> {
    let hub = &args.hub;
    let named = [hub.repo.as_deref(), hub.url.as_deref()].into_iter().flatten().collect::<Vec<_>>();
    let word = match (&args.model, &named[..]) {
        (None, []) => return Ok(None),
        (Some(path), []) => path.clone(),
        (None, [name]) => PathBuf::from(name),
        (Some(path), [name, ..]) => {
            return Err(Exit::usage(format!("two models: {} and {name}; name one", path.display())));
        }
        (None, [one, other, ..]) => return Err(Exit::usage(format!("two models: {one} and {other}; name one"))),
    };
    // What stands behind -hf is a name also where a file is called like that.
    let forced = args.model.is_none();
    match word.to_str().filter(|word| forced || is_name(word)) {
        Some(name) => fetching::get(&fetching::wanted(name, hub), terminal.draws()).map(Some),
        None => Ok(Some(word)),
    }
}

/// The same of a job's word.
///
/// # Errors
/// As of [`fetching::get`], for a name.
pub fn file(word: &Path, offline: bool) -> Result<PathBuf, Exit> {
    match word.to_str().filter(|word| is_name(word)) {
        Some(name) => fetching::get(&fetching::offline(name, offline), true),
        None => Ok(word.to_owned()),
    }
}

pub use fetching::{is_name, nearest};

#[cfg(feature = "download")]
pub mod fetching {
    //! Names, in a program that can fetch.

    use std::{
        ops::ControlFlow,
        path::PathBuf,
        time::{Duration, Instant},
    };

    use crate::{
        cli::{
            args::Hub,
            exit::{Code, Exit},
            interrupt, progress,
            terminal::say,
        },
        download::{self, DownloadError, Progress, Wanted},
        engine::plan::human_bytes,
    };

    pub use crate::download::{is_name, nearest};

    /// How often a line says how far it is, where no bar does.
    const EVERY: Duration = Duration::from_secs(10);

    pub fn wanted(name: &str, hub: &Hub) -> Wanted {
        Wanted {
            file: hub.file.clone(),
            token: hub.token.as_ref().map(|token| token.0.clone()),
            offline: hub.offline,
            ..Wanted::named(name)
        }
    }

    pub fn offline(name: &str, offline: bool) -> Wanted {
        Wanted { offline, ..Wanted::named(name) }
    }

    /// The file: of the cache where that has it, else fetched.
    ///
    /// # Errors
    /// Exit code 2: the word is no name, or there is no folder for a cache. Else as of [`fetch`].
    pub fn get(wanted: &Wanted, shows: bool) -> Result<PathBuf, Exit> {
        match download::find(wanted).map_err(exit)? {
            Some(path) => Ok(path),
            None => fetch(wanted, shows),
        }
    }

    /// The newest version, fetched where the cache does not have it; a bar or lines show how that goes. Ctrl-C ends the
    /// program, and what was fetched is kept.
    ///
    /// # Errors
    /// Exit code 6: it was not fetched. 3: it is none that qrun runs. 2: a name or a setting of the environment is
    /// wrong.
    pub fn fetch(wanted: &Wanted, shows: bool) -> Result<PathBuf, Exit> {
        // A chat watches already.
        let _ = interrupt::watch();
        let bar = if shows { progress::bytes("fetching") } else { indicatif::ProgressBar::hidden() };
        let mut said: Option<(String, Instant)> = None;
        let mut show = |at: Progress| {
            bar.set_length(at.total.unwrap_or(at.done));
            bar.set_position(at.done);
            bar.set_message(at.file.clone());
            let due = said.as_ref().is_none_or(|(file, when)| *file != at.file || when.elapsed() >= EVERY);
            if shows && bar.is_hidden() && due && at.total.is_some() {
                let total = at.total.map_or(String::new(), |total| format!(" of {}", human_bytes(total)));
                say(&format!("fetching {}: {}{total}", at.file, human_bytes(at.done)));
                said = Some((at.file, Instant::now()));
            }
            ControlFlow::Continue(())
        };
        let fetched = download::fetch(wanted, &mut show);
        bar.finish_and_clear();
        fetched.map_err(exit)
    }

    /// An error with its exit code.
    pub fn exit(error: DownloadError) -> Exit {
        match error {
            DownloadError::Interrupted => Exit::quiet(Code::Interrupted),
            error => Exit::of(&error),
        }
    }
}

#[cfg(not(feature = "download"))]
pub mod fetching {
    //! Names, in a program that was built without `download`: none is one.

    use std::path::PathBuf;

    use crate::cli::{args::Hub, exit::Exit};

    pub fn is_name(_: &str) -> bool {
        false
    }
    pub fn nearest(_: &str) -> Option<&'static str> {
        None
    }
    pub fn wanted(name: &str, _: &Hub) -> String {
        name.to_owned()
    }
    pub fn offline(name: &str, _: bool) -> String {
        name.to_owned()
    }
    /// Fetches nothing.
    ///
    /// # Errors
    /// Exit code 2, always.
    pub fn get(name: &str, _: bool) -> Result<PathBuf, Exit> {
        Err(Exit::usage(format!("{name}: this qrun was built without the feature download; name a GGUF file")))
    }
}
