//! `qrun bench`: how fast a model is here, beside what the machine could do at most.

mod args;
mod modes;
mod numbers;

use std::{
    fs::{File, OpenOptions},
    io::{IsTerminal, Write, stderr},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

use crate::{
    bench::{plot, record, rows::Setting, suite},
    engine::{Backend, Engine},
    generate::Session,
    sampler::SamplerParams,
    tools::synth,
};
use qrun_quant::Gguf;
use serde_json::Value;

pub use args::Bench;
use args::{Model, Outputs, Plot};
use modes::Task;

use super::{
    devices,
    exit::{Code, Exit},
    named, open, print, progress,
    terminal::say,
};

/// Recorded reports that one picture holds at most.
const MOST_COMPARED: usize = 6;

impl Bench {
    /// Runs the mode that the flags belong to; clap has refused flags of two of them.
    pub fn run(self) -> Result<(), Exit> {
        let Self { model, machine, rows, suite, shared, prompts, startup, plot, outputs } = self;
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
        if !(own || prompts.prompts.is_some() || startup.startup) {
            return modes::rows(&rows, &model.sources()?, &machine, outputs.json);
        }
        let task = Task { source: model.source()?, setting: machine.setting()?, outputs: &outputs };
        if let Some(file) = &prompts.prompts {
            modes::prompts(file, &prompts, shared.max_new_tokens.unwrap_or(2048), &task)
        } else if startup.startup {
            modes::startup(shared.trials.unwrap_or(3), &task)
        } else {
            let report = modes::suite(&suite, &shared, &task)?;
            plot.draw(&[vec![report], compared].concat())
        }
    }
}

/// Records of files that a flag names.
fn read_all(flag: &str, files: &[PathBuf]) -> Result<Vec<Value>, Exit> {
    let read = |file: &PathBuf| {
        let wrong = |reason: String| Exit::usage(format!("{flag} {}: {reason}", file.display()));
        record::read(&std::fs::read(file).map_err(|e| wrong(e.to_string()))?).map_err(wrong)
    };
    files.iter().map(read).collect()
}

impl Outputs {
    /// Refuses a folder that cannot be written to, before hours of measuring.
    fn check(&self) -> Result<(), Exit> {
        let Some(folder) = &self.reports else { return Ok(()) };
        let made = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
        made.map(drop).map_err(|e| Exit::usage(format!("--reports {}: {e}", folder.display())))
    }

    /// Prints a report and the line for an issue, and keeps the report where that was asked for.
    fn report(&self, report: &Value, tables: &str, line: &str) -> Result<(), Exit> {
        let json = record::json(report);
        print(if self.json { &json } else { tables })?;
        if let Some(folder) = &self.reports {
            let file = folder.join(record::file_name(report));
            let written = File::create_new(&file).and_then(|mut open| open.write_all(json.as_bytes()));
            written.map_err(|e| Exit::new(Code::Failure, format!("--reports {}: {e}", file.display())))?;
            say(&format!("report: {}", file.display()));
        }
        say(line);
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
            opened.map_err(|e| Exit::usage(format!("--plot {}: {e}", path.display())))?;
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
        std::fs::write(path, bytes).map_err(|e| Exit::new(Code::Failure, format!("--plot {}: {e}", path.display())))?;
        say(&format!("picture: {}", path.display()));
        Ok(())
    }
}

/// A model file; a synthetic one lies in a folder that goes away with this.
struct Source {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Model {
    fn is_unnamed(&self) -> bool {
        self.word.is_empty() && self.model.is_empty() && self.synthetic.is_none()
    }

    /// The only model.
    fn source(&self) -> Result<Source, Exit> {
        let mut sources = self.sources()?;
        match sources.len() {
            1 => Ok(sources.remove(0)),
            n => Err(Exit::usage(format!("{n} models, but only llama-bench's rows take more than one"))),
        }
    }

    /// All models.
    fn sources(&self) -> Result<Vec<Source>, Exit> {
        if self.is_unnamed() {
            return Err(Exit::usage("no model named: qrun bench MODEL.gguf, or --synthetic gemma-3-1b:Q4_K_M"));
        }
        let Some((name, file_type)) = &self.synthetic else {
            let files = self.word.iter().chain(&self.model);
            let source = |path: &PathBuf| Ok(Source { path: named::file(path, self.offline)?, _folder: None });
            return files.map(source).collect();
        };
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(format!("{name}-{file_type}.gguf"));
        let bar = progress::bytes("making the model");
        let made = synth::synth(name, *file_type, 0, &path, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        made.map_err(|error| Exit::new(Code::Failure, error.to_string()))?;
        Ok(vec![Source { path, _folder: Some(folder) }])
    }
}

impl Source {
    /// Opens and loads the model for `n_seq` sequences of `n_ctx` tokens; how long that took, in milliseconds.
    fn load(&self, setting: &Setting, n_ctx: usize, n_seq: usize) -> Result<(Session, f64), Exit> {
        let started = Instant::now();
        let engine = self.open(setting, n_ctx, n_seq)?;
        if let Backend::Cpu { reason: Some(reason) } = engine.place()
            && !reason.is_ordinary()
        {
            say(&format!("note: device: CPU ({reason})"));
        }
        if stderr().is_terminal() {
            say(&open::plan_line(&engine));
        }
        let decoder = engine.decoder(open::plain_notices())?;
        let load_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok((Session::new(engine, decoder, SamplerParams::default()), load_ms))
    }

    /// Everything but the weights.
    fn open(&self, setting: &Setting, n_ctx: usize, n_seq: usize) -> Result<Arc<Engine>, Exit> {
        Ok(Arc::new(Engine::open(Gguf::open(&self.path)?, setting.engine(n_ctx, n_seq))?))
    }
}
