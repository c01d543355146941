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

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use qrun::bench::{Column, Limits, fixed, machine, number, percent, record::json as pretty, table, text};
use qrun_quant::{
    GgmlType,
    cpu::{Isa, par::Pool, physical_cores},
};
use record::{MARGIN, differences, losses, ratios};
use serde_json::{Value, json};

/// Layer shapes (rows, columns) of gemma-3-1b, its head, and llama-3.2-1b.
const SHAPES: &[(usize, usize)] = &[(6912, 1152), (1152, 6912), (8192, 2048), (262_144, 1152)];

/// Measures products of each format.
#[derive(Parser)]
struct Args {
    /// Names of formats; all by default.
    #[arg(value_parser = format, default_values_t = GgmlType::all(), hide_default_value = true)]
    formats: Vec<GgmlType>,
    /// Threads; the physical cores by default.
    #[arg(long, default_value_t = physical_cores())]
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
    let args = Args::parse();
    if args.product {
        return count::product(args.formats[0], args.no_repack);
    }
    let read = |file: &PathBuf| record::read(&std::fs::read(file)?).map_err(anyhow::Error::msg);
    let old = args.against.as_ref().map(|file| read(file).with_context(|| file.display().to_string())).transpose()?;
    let (mut rows, mut limits) = (Vec::new(), Limits::default());
    if !args.count {
        (rows, limits) = Pool::new(args.threads)?.install(|| measure_all(&args, old.as_ref()));
    }
    let counts = (args.count || args.save).then(|| count::count(&args.formats, args.no_repack)).transpose();
    let counts = counts.or_else(|error| {
        eprintln!("instructions are not counted: {error:#}");
        if args.save { Ok(None) } else { Err(error) }
    })?;
    let new = json!({
        "machine": machine::facts(args.threads, None),
        "isa": format!("{:?}", Isa::best()),
        "limits": limits, "tokens": args.tokens, "repacked": !args.no_repack, "rows": rows,
        "instructions_per_weight": counts,
    });
    if let Some(old) = &old {
        compare(&new, old);
    }
    if args.save {
        let file = format!("benches/runs/{}-kernels.json", machine::now("%F"));
        std::fs::write(&file, pretty(&new)).with_context(|| file.clone())?;
        eprintln!("written: {file}");
    }
    Ok(())
}

/// Measures row by row and shows each at once; the rows, and the best that was measured of the machine.
fn measure_all(args: &Args, old: Option<&Value>) -> (Vec<Value>, Limits) {
    let many = format!("{} tokens GOP/s", args.tokens);
    let mut columns = vec![
        Column::left("format", 7, |row: &Value| text(row, "format").into()),
        Column::right("rows x cols", 13, |row: &Value| format!("{} x {}", row["rows"], row["cols"])),
        Column::right("repack GB/s", 11, |row| fixed(number(row, "repack_gb_per_s"), 1)),
        Column::right("1 token GB/s", 12, |row| fixed(number(row, "one_token_gb_per_s"), 1)),
        Column::right("of read", 7, |row| percent(number(row, "read_share"))),
        Column::right(many, 16, |row| fixed(number(row, "many_tokens_gop_per_s"), 0)),
        Column::right("of peak", 7, |row| percent(number(row, "peak_share"))),
    ];
    if let Some(old) = old {
        for (i, title) in ["read over recorded", "peak over recorded"].into_iter().enumerate() {
            columns.push(Column::right(title, 18, move |row| fixed(ratios(row, old).and_then(|r| r[i]), 2)));
        }
    }
    let (mut rows, mut limits) = (Vec::new(), Limits::default());
    print!("{} threads\n\n{}", args.threads, table::head(&columns));
    for &ty in &args.formats {
        for &shape in SHAPES.iter().filter(|(_, cols)| cols.is_multiple_of(ty.format().block)) {
            let (row, beside) = measure::row(args, ty, shape);
            limits = limits.best(beside);
            print!("{}", table::line(&columns, &row));
            rows.push(row);
        }
    }
    let [int8, int16, f32] = [limits.dot_gop_per_s, limits.pair_gop_per_s, limits.fma_gop_per_s].map(|x| fixed(x, 0));
    println!("\nlimits: {:.1} GB/s; GOP/s: int8 {int8}, 16-bit {int16}, f32 {f32}", limits.read_gb_per_s);
    (rows, limits)
}

/// Says what is worse than in the record. A machine may be busy: nothing fails.
fn compare(new: &Value, old: &Value) {
    println!("beside commit {}, {}:", text(&old["machine"], "commit"), text(&old["machine"], "timestamp"));
    for difference in differences(new, old) {
        println!("  not the same: {difference}");
    }
    let losses = losses(new, old);
    if losses.is_empty() {
        println!("  nothing lost more than {:.0} % of its share, or executes more instructions", 100.0 * MARGIN);
    }
    for loss in losses {
        println!("  worse: {loss}");
    }
}
