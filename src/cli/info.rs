//! `qrun info FILE`.

use super::{exit::Exit, jobs::ModelFile, print};

/// What is in a file: metadata, tensor types by bytes, memory need per context size.
#[derive(Debug, clap::Args)]
pub struct Info {
    #[command(flatten)]
    file: ModelFile,
    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(self) -> Result<(), Exit> {
        let file = self.file.open()?;
        print(&format!("{}\n", file.path().display()))
    }
}

/// Bytes as people read them.
pub fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.2} GB", n as f64 / 1e9),
    }
}
