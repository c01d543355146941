//! `--plot`: the picture of a run, or of recorded ones.

use std::path::{Path, PathBuf};

use qrun::bench::{
    plot::{self, Format, Subject, recorded::Recorded},
    report::Report,
};

use crate::cli::{
    exit::{Code, Exit},
    terminal::say,
};

/// Reports that one picture holds.
const MOST: usize = 7;

/// Flags of pictures.
#[derive(Debug, clap::Args)]
// Groups are named by their types, and all of these are Args.
#[group(skip)]
#[command(next_help_heading = "Pictures of the generation log's configurations")]
pub struct Args {
    /// Draw the report: shares of the limits, latency over position, speeds beside those of --compare
    #[arg(long, value_name = "FILE.svg|png", value_parser = picture)]
    plot: Option<PathBuf>,
    /// A recorded report (or run of the peers) to draw beside it; without a model, draw only these
    #[arg(long, value_name = "REPORT.json", requires = "plot")]
    compare: Vec<PathBuf>,
}

fn picture(name: &str) -> Result<PathBuf, String> {
    if !cfg!(feature = "plot") {
        return Err("this qrun was built without the feature plot".into());
    }
    let path = PathBuf::from(name);
    Format::of(&path).map(|_| path).ok_or_else(|| "expected a name that ends in .svg or .png".into())
}

impl Args {
    /// The flag that asks for a picture, if it was given.
    pub fn asked(&self) -> Option<&'static str> {
        self.plot.as_ref().map(|_| "--plot")
    }

    /// Whether there are recorded reports to draw.
    pub fn compares(&self) -> bool {
        !self.compare.is_empty()
    }

    /// What the files of `--compare` hold.
    pub fn read(&self) -> Result<Subject, Exit> {
        let mut subject = Subject::default();
        for path in &self.compare {
            let wrong = |e: &dyn std::fmt::Display| Exit::usage(format!("--compare {}: {e}", path.display()));
            let json = std::fs::read(path).map_err(|e| wrong(&e))?;
            match Recorded::read(&json).map_err(|e| wrong(&e))? {
                Recorded::Report(report) => subject.reports.push(*report),
                Recorded::Peers(peers) => subject.peers.push(peers),
            }
        }
        if subject.reports.len() >= MOST || subject.peers.len() >= MOST {
            return Err(Exit::usage(format!("--compare: a picture holds fewer than {MOST} recorded reports")));
        }
        Ok(subject)
    }

    /// Draws a new report and the recorded ones, if a picture is wanted.
    pub fn draw(&self, report: Option<Report>, mut subject: Subject) -> Result<(), Exit> {
        let Some(path) = &self.plot else { return Ok(()) };
        subject.reports.splice(..0, report);
        let format = Format::of(path).unwrap_or(Format::Svg);
        let bytes = plot::draw(&subject, format).map_err(|e| Exit::new(Code::Failure, e.to_string()))?;
        write(path, &bytes)?;
        say(&format!("picture: {}", path.display()));
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Exit> {
    std::fs::write(path, bytes).map_err(|e| Exit::new(Code::Failure, format!("--plot {}: {e}", path.display())))
}
