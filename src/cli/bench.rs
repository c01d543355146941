//! `qrun bench`: how fast a model is here, beside what the machine could do at most.

mod args;
mod model;
mod modes;
mod numbers;
mod recipe;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::bench::{plot, record, report, startup, suite};
use serde_json::Value;

pub use args::Bench;
use args::{Outputs, Plot};
use modes::Task;

use super::{
    devices,
    exit::{Code, Exit, system_error},
    input, print,
    terminal::say,
};

/// Recorded reports that one picture holds at most.
const MOST_COMPARED: usize = 6;

impl Bench {
    /// Runs the mode that the flags belong to; clap has refused flags of two of them.
    ///
    /// # Errors
    /// Exit code 2: a flag, or a file that it names; that is found before anything is measured. 3 to 6: the model file,
    /// memory, the device, or a model that was not fetched. 1: a measurement fails, or a report or a picture cannot be
    /// written.
    pub fn run(self) -> Result<(), Exit> {
        let Self { model, machine, rows, suite, shared, recipe, prompts, startup, plot, outputs } = self;
        let own = suite.is_some() || shared.max_new_tokens.is_some() || shared.trials.is_some() || plot.plot.is_some();
        let suite = suite.unwrap_or_default();
        if !suite.tables.is_empty() {
            return print(&suite::markdown(&read_all("--tables", &suite.tables)?));
        }
        if rows.list_devices {
            return print(&devices::listing());
        }
        outputs.check()?;
        let compared = plot.check()?;
        if model.is_unnamed() && !compared.is_empty() {
            return plot.draw(&compared);
        }
        if let Some(recipe) = recipe.as_deref().and_then(crate::bench::recipe::find) {
            let models = model.wanted(Some(recipe))?;
            return recipe::run(recipe, models, &machine, (&suite, &shared), &outputs);
        }
        if !(own || prompts.prompts.is_some() || startup) {
            return modes::rows(&rows, &model.sources()?, &machine, outputs.json);
        }
        let task = Task { source: model.source()?, setting: machine.setting()? };
        if startup {
            let report = modes::measure_startup(shared.trials.unwrap_or(3), &task)?;
            return outputs.show(&report, &startup::markdown(&report));
        }
        let report = match &prompts.prompts {
            Some(file) => modes::measure_prompts(&modes::texts(file)?, &prompts, &shared, &task)?,
            None => modes::measure_suite(&suite, &shared, &task)?,
        };
        outputs.show(&report, &report::tables(std::slice::from_ref(&report)))?;
        outputs.keep(&report)?;
        plot.draw(&[vec![report], compared].concat())
    }
}

/// Records of files that a flag names.
fn read_all(flag: &str, files: &[PathBuf]) -> Result<Vec<Value>, Exit> {
    let read = |file: &PathBuf| {
        let json = input::file_text(flag, file, input::LONGEST_PROMPT)?;
        record::read(json.as_bytes()).map_err(|reason| Exit::usage(format!("{flag} {}: {reason}", file.display())))
    };
    files.iter().map(read).collect()
}

/// What was measured and could not be written.
fn failed(flag: &str, file: &Path, error: &io::Error) -> Exit {
    Exit::new(Code::Failure, format!("{flag} {}: {}", file.display(), system_error(error)))
}

impl Outputs {
    /// Refuses a folder that cannot be written to, before hours of measuring.
    fn check(&self) -> Result<(), Exit> {
        let Some(folder) = &self.reports else { return Ok(()) };
        let made = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
        made.map(drop).map_err(|e| Exit::usage(format!("--reports {}: {}", folder.display(), system_error(&e))))
    }

    /// Prints a report: its JSON, or the tables.
    fn show(&self, report: &Value, tables: &str) -> Result<(), Exit> {
        if self.json { print(&record::json(report)) } else { print(tables) }
    }

    /// Keeps a report where that was asked for, and says the line for an issue.
    fn keep(&self, report: &Value) -> Result<(), Exit> {
        if let Some(folder) = &self.reports {
            let file = folder.join(record::file_name(report));
            let written = File::create_new(&file).and_then(|mut open| open.write_all(record::json(report).as_bytes()));
            written.map_err(|e| failed("--reports", &file, &e))?;
            say(&format!("report: {}", file.display()));
        }
        say(&report::summary(report));
        Ok(())
    }
}

impl Plot {
    /// Refuses, before hours of measuring, a picture that could not be written; reads the files of `--compare`.
    fn check(&self) -> Result<Vec<Value>, Exit> {
        if let Some(path) = &self.plot {
            // Written without its content: a file that is there already stays as it is.
            let new = !path.exists();
            let opened = OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|e| Exit::usage(format!("--plot {}: {}", path.display(), system_error(&e))))?;
            if new {
                std::fs::remove_file(path)?;
            }
        }
        if self.compare.len() > MOST_COMPARED {
            return Err(Exit::usage(format!("--compare: a picture holds at most {MOST_COMPARED} recorded reports")));
        }
        read_all("--compare", &self.compare)
    }

    /// Draws records, if a picture is wanted.
    fn draw(&self, records: &[Value]) -> Result<(), Exit> {
        let Some(path) = &self.plot else { return Ok(()) };
        let png = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("png"));
        let large = || Exit::new(Code::Failure, "the picture was not drawn: it is too large for memory");
        let bytes = plot::draw(records, png).ok_or_else(large)?;
        std::fs::write(path, bytes).map_err(|e| failed("--plot", path, &e))?;
        say(&format!("picture: {}", path.display()));
        Ok(())
    }
}
