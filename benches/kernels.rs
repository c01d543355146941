//! CPU products by format: how near the machine's limits they come, measured in the same run.
//!
//! `cargo bench --bench kernels -- [FORMAT…]` prints a table, `--save` writes `benches/runs/DATE-kernels.json` as well,
//! `--against FILE` shows what became of the shares in such a record, `--count` counts instructions.
//!
//! One token reads the weights once: GB/s beside the read bandwidth, over more weights than the caches hold. Many tokens
//! multiply: GOP/s beside a loop of nothing but int8 dot products, or multiply-additions for floats.

#![allow(clippy::print_stdout, clippy::print_stderr)] // A bench prints.

#[path = "kernels/count.rs"]
mod count;
#[path = "kernels/measure.rs"]
mod measure;
#[path = "kernels/record.rs"]
mod record;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use measure::Measure;
use qrun::bench::machine::{self, Machine};
use qrun_quant::{
    GgmlType,
    cpu::{Isa, par::Pool},
};
use record::{Change, MARGIN, Record, Row};

/// Layer shapes (rows, columns) of gemma-3-1b, its head, and llama-3.2-1b.
const SHAPES: &[(usize, usize)] = &[(6912, 1152), (1152, 6912), (8192, 2048), (262_144, 1152)];

/// Measures products of each format.
#[derive(Parser)]
struct Args {
    /// Names of formats; all by default.
    #[arg(value_parser = format)]
    formats: Vec<GgmlType>,
    /// Threads; all cores by default.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Tokens of the products of many.
    #[arg(long, default_value_t = 512)]
    tokens: usize,
    /// Leaves the weights as they are in a file.
    #[arg(long)]
    no_repack: bool,
    /// Writes benches/runs/DATE-kernels.json; instructions are counted too, where valgrind is installed.
    #[arg(long)]
    save: bool,
    /// A recorded run whose shares are compared.
    #[arg(long)]
    against: Option<PathBuf>,
    /// Counts the instructions of a product of one token (needs valgrind), and measures no time.
    #[arg(long, conflicts_with = "save")]
    count: bool,
    /// One product of the format: how this program starts itself under valgrind.
    #[arg(long, hide = true, requires = "formats")]
    product: bool,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn format(name: &str) -> Result<GgmlType, String> {
    let names = || GgmlType::all().map(GgmlType::name).collect::<Vec<_>>().join(", ");
    GgmlType::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

fn main() -> Result<()> {
    let mut args = Args::parse();
    if args.formats.is_empty() {
        args.formats.extend(GgmlType::all());
    }
    if args.threads == 0 {
        args.threads = std::thread::available_parallelism()?.get();
    }
    if args.product { count::product(args.formats[0]) } else { run(&args) }
}

fn run(args: &Args) -> Result<()> {
    let old = args.against.as_deref().map(read).transpose()?;
    let measure = Measure::new(args);
    let mut record = Record {
        machine: Machine::processor(args.threads),
        isa: format!("{:?}", Isa::best()),
        limits: measure.limits,
        tokens: args.tokens,
        repacked: !args.no_repack,
        rows: Vec::new(),
        instructions_per_weight: None,
    };
    if !args.count {
        Pool::new(args.threads)?.install(|| measure_all(args, measure, &mut record, old.as_ref()));
    }
    if args.count || args.save {
        match count::count(&args.formats) {
            Ok(counts) => record.instructions_per_weight = Some(counts),
            Err(error) if args.save => eprintln!("instructions are not counted: {error:#}"),
            Err(error) => return Err(error),
        }
    }
    if let Some(old) = &old {
        compare(&record, old);
    }
    if args.save {
        let file = format!("benches/runs/{}-kernels.json", machine::now("%F"));
        std::fs::write(&file, record.encode()?).with_context(|| file.clone())?;
        eprintln!("written: {file}");
    }
    Ok(())
}

/// A recorded run.
fn read(file: &Path) -> Result<Record> {
    let json = std::fs::read(file).with_context(|| file.display().to_string())?;
    Record::decode(&json).map_err(anyhow::Error::msg).with_context(|| file.display().to_string())
}

/// Measures row by row and shows each at once.
fn measure_all(args: &Args, mut measure: Measure, record: &mut Record, old: Option<&Record>) {
    let limits = measure.limits;
    let peaks = [limits.dot_gop_per_s, limits.pair_gop_per_s, limits.fma_gop_per_s];
    let [int8, int16, f32] = peaks.map(|peak| known(peak, |peak| format!("{peak:.0}")));
    println!("{} threads: GOP/s of int8 products {int8}, of 16-bit ones {int16}, of f32 {f32}", args.threads);
    let beside = if old.is_some() { " | shares over the recorded" } else { "" };
    println!(
        "format   rows x cols      repack |   1 token: GB/s  of read | {:3} tokens: GOP/s  of peak{beside}",
        args.tokens
    );
    for &ty in &args.formats {
        for &(rows, cols) in SHAPES.iter().filter(|(_, cols)| cols.is_multiple_of(ty.format().block)) {
            let row = measure.row(ty, (rows, cols));
            let change = old.and_then(|old| old.same_product(&row)).map(|old| Change::between(old, &row));
            println!("{}{}", line(&row), change.map(ratios).unwrap_or_default());
            record.rows.push(row);
        }
    }
    record.limits = measure.limits;
}

/// A number, or a dash where there is none.
fn known(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or("–".into(), text)
}

fn line(row: &Row) -> String {
    format!(
        "{:7} {:6} x {:<6} {:>9} |          {:6.1} {:7.0} % |         {:8.0} {:>9}",
        row.format,
        row.rows,
        row.cols,
        known(row.repack_gb_per_s, |speed| format!("{speed:.1} GB/s")),
        row.one_token_gb_per_s,
        100.0 * row.read_share,
        row.many_tokens_gop_per_s,
        known(row.peak_share, |share| format!("{:.0} %", 100.0 * share)),
    )
}

fn ratios(change: Change) -> String {
    format!(" | {:5.2} {:>5}", change.read, known(change.peak, |peak| format!("{peak:.2}")))
}

/// Says what is worse than in the record. A machine may be busy: nothing fails.
fn compare(new: &Record, old: &Record) {
    println!("beside commit {}, {}:", old.machine.commit, old.machine.timestamp);
    for difference in new.differences(old) {
        println!("  not the same: {difference}");
    }
    let losses = new.losses(old);
    if losses.is_empty() {
        println!("  nothing lost more than {:.0} % of its share, or executes more instructions", 100.0 * MARGIN);
    }
    for loss in losses {
        println!("  worse: {loss}");
    }
}
