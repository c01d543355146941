//! `--plot`: the picture of a run, or of recorded ones.

use std::{fs::OpenOptions, path::PathBuf};

use qrun::bench::{
    plot::{self, Format, Series, recorded::Recorded},
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
#[group(id = "plot_mode", conflicts_with_all = ["rows_mode", "prompts_mode", "startup_mode"])]
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
    /// Whether a picture is asked for.
    pub fn is_asked(&self) -> bool {
        self.plot.is_some()
    }

    /// Whether there are recorded reports to draw.
    pub fn compares(&self) -> bool {
        !self.compare.is_empty()
    }

    /// Refuses, before hours of measuring, a picture that could not be written; reads the files of `--compare`.
    pub fn check(&self) -> Result<Series, Exit> {
        if let Some(path) = &self.plot {
            // Written without its content: a file that is there already stays as it is.
            let new = !path.exists();
            let opened = OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|e| Exit::usage(format!("--plot {}: {e}", path.display())))?;
            if new {
                std::fs::remove_file(path)?;
            }
        }
        let mut subject = Series::default();
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
    pub fn draw(&self, report: Option<Report>, mut subject: Series) -> Result<(), Exit> {
        let Some(path) = &self.plot else { return Ok(()) };
        subject.reports.splice(..0, report);
        let format = Format::of(path).unwrap_or(Format::Svg);
        let bytes = plot::draw(&subject, format).map_err(|e| Exit::new(Code::Failure, e.to_string()))?;
        let failed = |e| Exit::new(Code::Failure, format!("--plot {}: {e}", path.display()));
        std::fs::write(path, bytes).map_err(failed)?;
        say(&format!("picture: {}", path.display()));
        Ok(())
    }
}
