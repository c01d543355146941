//! Rows in llama-bench's formats: Markdown, CSV, JSON, JSON lines, SQL.

use serde_json::{Map, Value};

use super::{
    Row,
    fields::{Field, Kind, flat, nested},
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
    /// A table and an insertion per row.
    Sql,
}

impl Format {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("md", Self::Md),
        ("csv", Self::Csv),
        ("json", Self::Json),
        ("jsonl", Self::Jsonl),
        ("sql", Self::Sql),
        ("none", Self::None),
    ];
}

/// Writes rows in one format. Texts are to be printed as they come.
pub struct Output {
    format: Format,
    /// Columns in Markdown beside those that are always there.
    columns: Vec<Column>,
    rows: usize,
}

impl Output {
    /// Nothing written yet. `asked` names what was asked for, which Markdown then shows: a field of a row.
    pub fn new(format: Format, asked: &[&'static str]) -> Self {
        Self { format, columns: columns(asked), rows: 0 }
    }

    /// A row; before the first one what begins the whole.
    pub fn row(&mut self, row: &Row) -> String {
        let first = self.rows == 0;
        if first {
            self.columns.retain(|column| (column.shown)(row));
        }
        self.rows += 1;
        match self.format {
            Format::None => String::new(),
            Format::Md => {
                let head = if first { self.md_head() } else { String::new() };
                head + &self.md_line(|column| (column.value)(row))
            }
            Format::Csv => {
                let head = if first { names(",") + "\n" } else { String::new() };
                let values = flat().map(|field| csv_quoted(&field.written(row)));
                head + &values.collect::<Vec<_>>().join(",") + "\n"
            }
            Format::Json => {
                let object = serde_json::to_string_pretty(&object(row)).unwrap_or_default();
                let indented = object.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n");
                format!("{}{indented}", if first { "[\n" } else { ",\n" })
            }
            Format::Jsonl => format!("{}\n", object(row)),
            Format::Sql => {
                let head = if first { sql_table() } else { String::new() };
                let values = flat().map(|field| sql_quoted(field, row)).collect::<Vec<_>>().join(", ");
                format!("{head}INSERT INTO llama_bench ({}) VALUES ({values});\n", names(", "))
            }
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

    fn md_head(&self) -> String {
        let rule = |c: &Column| {
            let dashes = "-".repeat(c.width - 1);
            if c.left { format!(" {dashes}- |") } else { format!(" {dashes}: |") }
        };
        let rules: String = self.columns.iter().map(rule).collect();
        format!("{}|{rules}\n", self.md_line(|column| column.title.into()))
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
    /// Whether a table that begins with this row has the column.
    shown: fn(&Row) -> bool,
    value: Box<dyn Fn(&Row) -> String>,
}

/// Fields that Markdown shows when they were asked for, with title and width as in llama-bench.
const ASKED: [(&str, &str, usize, bool); 7] = [
    ("n_batch", "n_batch", 7, false),
    ("n_ubatch", "n_ubatch", 8, false),
    ("type_k", "type_k", 6, false),
    ("type_v", "type_v", 6, false),
    ("devices", "dev", 12, true),
    ("repack", "rpk", 3, false),
    ("n_gpu_layers", "ngl", 3, false),
];

/// llama-bench's columns in their order and width, then ours.
fn columns(asked: &[&'static str]) -> Vec<Column> {
    let column = |title, width, left, value: fn(&Row) -> String| Column {
        title,
        width,
        left,
        shown: |_| true,
        value: Box::new(value),
    };
    let mut columns = vec![
        column("model", 30, true, |r| r.subject.ty.clone()),
        column("size", 10, false, |r| binary(r.subject.size)),
        column("params", 10, false, |r| decimal(r.subject.n_params)),
        column("backend", 10, true, |r| r.backend().into()),
    ];
    let layers = asked.contains(&"n_gpu_layers");
    let on_gpu = |r: &Row| r.backend() == "CUDA";
    let on_cpu = |r: &Row| r.backend() == "CPU";
    let always = |_: &Row| true;
    columns.push(Column {
        shown: if layers { always } else { on_gpu },
        ..column("ngl", 3, false, |r| r.setting.n_gpu_layers.to_string())
    });
    columns.push(Column {
        shown: if asked.contains(&"n_threads") { always } else { on_cpu },
        ..column("threads", 7, false, |r| r.setting.threads.to_string())
    });
    let extra = ASKED.iter().filter(|(name, ..)| asked.contains(name) && *name != "n_gpu_layers");
    columns.extend(extra.filter_map(|&(name, title, width, left)| {
        let field = flat().find(|field| field.name == name)?;
        Some(Column { title, width, left, shown: always, value: Box::new(|row| field.written(row)) })
    }));
    columns.push(column("test", 15, false, |r| r.test.to_string()));
    columns.push(column("t/s", 20, false, |r| format!("{:.2} ± {:.2}", r.avg_ts(), r.stddev_ts())));
    columns.push(column("GB/s", 6, false, |r| format!("{:.1}", r.gb_per_s())));
    columns.push(column("limit t/s", 9, false, |r| known(r.limit_ts, |limit| format!("{limit:.2}"))));
    columns.push(column("share", 5, false, |r| known(r.limit_share(), |share| format!("{:.0} %", 100.0 * share))));
    columns
}

fn known(value: Option<f64>, written: impl Fn(f64) -> String) -> String {
    value.map_or("–".into(), written)
}

fn binary(bytes: u64) -> String {
    let (mib, gib) = (f64::from(1 << 20), f64::from(1 << 30));
    if (bytes as f64) < gib {
        format!("{:.2} MiB", bytes as f64 / mib)
    } else {
        format!("{:.2} GiB", bytes as f64 / gib)
    }
}

fn decimal(n: u64) -> String {
    if n < 1_000_000_000 { format!("{:.2} M", n as f64 / 1e6) } else { format!("{:.2} B", n as f64 / 1e9) }
}

fn names(separator: &str) -> String {
    flat().map(|field| field.name).collect::<Vec<_>>().join(separator)
}

fn csv_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn sql_table() -> String {
    let ty = |field: &Field| match field.kind {
        Kind::Text => "TEXT",
        Kind::Whole | Kind::Switch => "INTEGER",
        Kind::Real => "REAL",
    };
    let columns: Vec<_> = flat().map(|field| format!("  {} {}", field.name, ty(field))).collect();
    format!("CREATE TABLE IF NOT EXISTS llama_bench (\n{}\n);\n\n", columns.join(",\n"))
}

fn sql_quoted(field: &Field, row: &Row) -> String {
    match (field.value)(row) {
        Value::Null => "NULL".into(),
        _ => format!("'{}'", field.written(row).replace('\'', "''")),
    }
}

fn object(row: &Row) -> Value {
    Value::Object(nested().map(|field| (field.name.to_owned(), (field.value)(row))).collect::<Map<_, _>>())
}
