//! `qrun compare FILE --device A,B`: where two devices part.

use std::{fmt::Write, sync::Arc};

use crate::{
    engine::{DevicePreference, Engine, EngineOptions},
    tools::compare::{Distance, compare},
};
use qrun_models::{Forward, Options};

use super::{
    exit::{Code, Exit},
    open,
    stdout::print,
    values::ModelFile,
};

/// Takes a prompt through two backends and names the first intermediate result that differs.
#[derive(Debug, clap::Args)]
pub struct Compare {
    #[command(flatten)]
    file: ModelFile,
    /// Two of cpu, exact (f32 on the CPU), cuda (or cudaN): what is looked at, and the reference
    #[arg(long, value_name = "A,B", default_value = "cuda,exact", value_delimiter = ',', value_parser = side)]
    device: Vec<Side>,
    /// The prompt
    #[arg(short, long, value_name = "TEXT", default_value = "The quick brown fox jumps over the lazy dog.")]
    prompt: String,
    /// Relative L2 distance from which a result counts as different
    #[arg(long, value_name = "X", default_value_t = 0.05)]
    bound: f64,
    /// Every result, not only the layers' outputs and those that differ
    #[arg(long)]
    all: bool,
}

/// A device and its arithmetic.
#[derive(Debug, Clone, Copy)]
struct Side {
    device: DevicePreference,
    exact: bool,
}

fn side(name: &str) -> Result<Side, String> {
    match (name, name.parse::<DevicePreference>()) {
        ("exact", _) => Ok(Side { device: DevicePreference::Cpu, exact: true }),
        // What `auto` chooses may be the other side.
        (_, Ok(device)) if device != DevicePreference::Auto => Ok(Side { device, exact: false }),
        _ => Err("expected cpu, exact, cuda, or cuda0, cuda1 … as `qrun devices` lists them".into()),
    }
}

impl Compare {
    /// Prints how far each intermediate result of one device is from that of the other.
    ///
    /// # Errors
    /// Exit code 1: a result is farther apart than the bound, or a step fails. 2: not two devices. 3 to 6: the model
    /// file, memory, the device, or a model that was not fetched.
    pub fn run(self) -> Result<(), Exit> {
        let [a, b] = self.device[..] else {
            return Err(Exit::usage(
                "--device: expected two of cpu, exact, cuda with a comma between them, as cuda,exact",
            ));
        };
        let (_, mut first) = self.decoder(a)?;
        let (engine, mut second) = self.decoder(b)?;
        let tokens = engine.prompt(&self.prompt)?;
        let distances = compare(&mut *first, &mut *second, &tokens);
        let distances = distances.map_err(|error| Exit::new(Code::Failure, error.to_string()))?;
        print(&self.table(&distances, tokens.len()))?;
        match distances.iter().find(|d| d.relative > self.bound) {
            None => Ok(()),
            Some(first) => Err(Exit::new(Code::Failure, format!("the first that differs: {}", title(first)))),
        }
    }

    fn decoder(&self, Side { device, exact }: Side) -> Result<(Arc<Engine>, Box<dyn Forward>), Exit> {
        let base = if exact { Options::exact() } else { Options::default() };
        let options = Options { n_ctx: 2048, ..base };
        let engine = Arc::new(Engine::open(self.file.open()?, EngineOptions { options, template: None, device })?);
        let decoder = engine.decoder(&mut open::say_if_fell_back())?;
        Ok((engine, decoder.forward))
    }

    fn table(&self, distances: &[Distance], tokens: usize) -> String {
        let mut text = format!("{tokens} tokens; relative L2 distance of each intermediate result\n");
        for d in distances {
            let differs = d.relative > self.bound;
            if self.all || differs || matches!(d.name, "inp_embd" | "l_out" | "result_output") {
                let (at, a, b) = d.worst;
                let mark = if differs { "  differs" } else { "" };
                let _ = writeln!(text, "{:<28} {:9.2e}  farthest at {at}: {a} and {b}{mark}", title(d), d.relative);
            }
        }
        text
    }
}

fn title(d: &Distance) -> String {
    d.layer.map_or(d.name.to_owned(), |il| format!("layer {il}: {}", d.name))
}
