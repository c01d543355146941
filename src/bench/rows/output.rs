//! Rows in llama-bench's formats: Markdown, CSV, JSON, JSON lines.

use serde_json::Value;

use super::{
    Row,
    fields::{flat, nested, written},
};
use crate::bench::machine;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Nothing at all.
    None,
    /// A table in Markdown.
    Md,
    /// Comma-separated values.
    Csv,
    /// An array of objects.
    Json,
    /// An object per line.
    Jsonl,
}

impl Format {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 5] =
        [("md", Self::Md), ("csv", Self::Csv), ("json", Self::Json), ("jsonl", Self::Jsonl), ("none", Self::None)];
}

/// Writes rows in one format. Texts are to be printed as they come.
pub struct Output {
    format: Format,
    /// Fields that were asked for: Markdown shows them.
    asked: Vec<&'static str>,
    /// Columns in Markdown, known with the first row.
    columns: Vec<Column>,
    rows: usize,
}

impl Output {
    /// Nothing written yet. `asked` names the fields of a row that Markdown then shows.
    pub fn new(format: Format, asked: &[&'static str]) -> Self {
        Self { format, asked: asked.to_vec(), columns: Vec::new(), rows: 0 }
    }

    /// A row; before the first one what begins the whole.
    pub fn row(&mut self, row: &Row) -> String {
        let first = self.rows == 0;
        self.rows += 1;
        match self.format {
            Format::None => String::new(),
            Format::Md => {
                let mut out = String::new();
                if first {
                    self.columns = columns(&self.asked, row);
                    out = self.md_line(|column| column.title.into()) + "|";
                    for Column { width, left, .. } in &self.columns {
                        out += &format!(" {}{} |", "-".repeat(width - 1), if *left { '-' } else { ':' });
                    }
                    out.push('\n');
                }
                out + &self.md_line(|column| (column.value)(row))
            }
            Format::Csv => {
                let head = if first { flat().map(|f| f.0).collect::<Vec<_>>().join(",") + "\n" } else { String::new() };
                let quoted = |text: String| format!("\"{}\"", text.replace('"', "\"\""));
                let values: Vec<String> = flat().map(|(_, value)| quoted(written(value(row)))).collect();
                head + &values.join(",") + "\n"
            }
            Format::Json => {
                let object = serde_json::to_string_pretty(&object(row)).unwrap_or_default();
                format!("{}  {}", if first { "[\n" } else { ",\n" }, object.replace('\n', "\n  "))
            }
            Format::Jsonl => format!("{}\n", object(row)),
        }
    }

    /// What ends the whole; nothing where nothing has begun.
    pub fn end(&self) -> String {
        match self.format {
            _ if self.rows == 0 => String::new(),
            Format::Json => "\n]\n".into(),
            Format::Md => format!("\nbuild: {} ({})\n", machine::commit(), machine::build_number()),
            _ => String::new(),
        }
    }

    fn md_line(&self, cell: impl Fn(&Column) -> String) -> String {
        let padded = |c: &Column| {
            let (text, width) = (cell(c), c.width);
            if c.left { format!(" {text:<width$} |") } else { format!(" {text:>width$} |") }
        };
        format!("|{}\n", self.columns.iter().map(padded).collect::<String>())
    }
}

/// A column in Markdown.
struct Column {
    title: &'static str,
    width: usize,
    left: bool,
    value: Box<dyn Fn(&Row) -> String>,
}

/// Fields that Markdown shows when they were asked for, with title and width as in llama-bench; the first two also where
/// the first row's device says so.
const ASKED: [(&str, &str, usize); 8] = [
    ("n_gpu_layers", "ngl", 3),
    ("n_threads", "threads", 7),
    ("n_batch", "n_batch", 7),
    ("n_ubatch", "n_ubatch", 8),
    ("type_k", "type_k", 6),
    ("type_v", "type_v", 6),
    ("devices", "dev", 12),
    ("repack", "rpk", 3),
];

/// llama-bench's columns in their order and width, then ours.
fn columns(asked: &[&str], first: &Row) -> Vec<Column> {
    fn column(title: &'static str, width: usize, value: impl Fn(&Row) -> String + 'static) -> Column {
        Column { title, width, left: ["model", "backend", "dev"].contains(&title), value: Box::new(value) }
    }
    let mut columns = vec![
        column("model", 30, |r| r.model.ty.clone()),
        column("size", 10, |r| binary(r.model.size)),
        column("params", 10, |r| decimal(r.model.n_params)),
        column("backend", 10, |r| r.backend().into()),
    ];
    let usual = if first.backend() == "CUDA" { "n_gpu_layers" } else { "n_threads" };
    let shown = ASKED.iter().filter(|(name, ..)| *name == usual || asked.contains(name));
    columns.extend(shown.filter_map(|&(name, title, width)| {
        let (_, value) = flat().find(|field| field.0 == name)?;
        Some(column(title, width, |row| written(value(row))))
    }));
    let known = |value: Option<f64>, text: fn(f64) -> String| value.map_or("–".into(), text);
    columns.extend([
        column("test", 15, |r| r.test.to_string()),
        column("t/s", 20, |r| format!("{:.2} ± {:.2}", r.avg_ts(), r.stddev_ts())),
        column("GB/s", 6, |r| format!("{:.1}", r.gb_per_s())),
        column("limit t/s", 9, move |r| known(r.limit_ts, |limit| format!("{limit:.2}"))),
        column("share", 5, move |r| known(r.limit_share(), |share| format!("{:.0} %", 100.0 * share))),
    ]);
    columns
}

fn binary(bytes: u64) -> String {
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib < 1.0 { format!("{:.2} MiB", gib * 1024.0) } else { format!("{gib:.2} GiB") }
}

fn decimal(n: u64) -> String {
    if n < 1_000_000_000 { format!("{:.2} M", n as f64 / 1e6) } else { format!("{:.2} B", n as f64 / 1e9) }
}

fn object(row: &Row) -> Value {
    Value::Object(nested().map(|(name, value)| ((*name).to_owned(), value(row))).collect())
}
