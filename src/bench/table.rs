//! The one table writer: columns over rows of any type, in Markdown; rows of a record also as CSV, JSON and JSON lines.

use serde_json::Value;

use super::{number, quotient, text};

/// A column of a Markdown table.
pub struct Column<'a, R: ?Sized> {
    title: String,
    /// The least width of its cells.
    width: usize,
    left: bool,
    cell: Box<dyn Fn(&R) -> String + 'a>,
}

impl<'a, R: ?Sized> Column<'a, R> {
    /// Numbers, at the right.
    pub fn right(title: impl Into<String>, width: usize, cell: impl Fn(&R) -> String + 'a) -> Self {
        Self { title: title.into(), width, left: false, cell: Box::new(cell) }
    }

    /// Words, at the left.
    pub fn left(title: impl Into<String>, width: usize, cell: impl Fn(&R) -> String + 'a) -> Self {
        Self { left: true, ..Self::right(title, width, cell) }
    }

    fn padded(&self, text: &str) -> String {
        let (text, width) = (text.replace('|', "\\|").replace('\n', " "), self.width);
        if self.left { format!(" {text:<width$} |") } else { format!(" {text:>width$} |") }
    }
}

/// Titles, and the line below them.
pub fn head<R: ?Sized>(columns: &[Column<R>]) -> String {
    let rule = |c: &Column<R>| match (c.left, c.width) {
        (true, 0) => "---|".to_owned(),
        (false, 0) => "--:|".to_owned(),
        (left, width) => format!(" {}{} |", "-".repeat(width - 1), if left { '-' } else { ':' }),
    };
    let titles = columns.iter().map(|c| c.padded(&c.title)).collect::<String>().replace("|  |", "| |");
    format!("|{titles}\n|{}\n", columns.iter().map(rule).collect::<String>())
}

/// One row.
pub fn line<R: ?Sized>(columns: &[Column<R>], row: &R) -> String {
    format!("|{}\n", columns.iter().map(|c| c.padded(&(c.cell)(row))).collect::<String>())
}

/// The whole table.
pub fn table<'a, R: ?Sized + 'a>(columns: &[Column<R>], rows: impl IntoIterator<Item = &'a R>) -> String {
    rows.into_iter().fold(head(columns), |out, row| out + &line(columns, row))
}

/// A column of numbers of a record's rows with so many decimals; of a `field/limit` the share.
pub fn numbers(title: &str, fields: &'static str, decimals: usize) -> Column<'static, Value> {
    Column::right(title, 0, move |row| cell(row, fields, decimals))
}

/// A cell of such a column.
pub fn cell(row: &Value, fields: &str, decimals: usize) -> String {
    match fields.split_once('/') {
        Some((speed, limit)) => percent(quotient(row, [speed, limit])),
        None => fixed(number(row, fields), decimals),
    }
}

/// A number with so many decimals; a dash where there is none.
pub fn fixed(value: Option<f64>, decimals: usize) -> String {
    value.map_or("–".into(), |x| format!("{x:.decimals$}"))
}

/// A share, 1 for all, in whole percent; a dash where there is none.
pub fn percent(share: Option<f64>) -> String {
    share.map_or("–".into(), |share| format!("{:.0} %", 100.0 * share))
}

/// A field of a row in words: a switch is 0 or 1, a real number has six decimals, null is empty.
pub fn plain(row: &Value, field: &str) -> String {
    match &row[field] {
        Value::Null => String::new(),
        Value::String(_) => text(row, field).into(),
        Value::Bool(on) => u8::from(*on).to_string(),
        Value::Number(x) if x.is_f64() => fixed(x.as_f64(), 6),
        other => other.to_string(),
    }
}

/// The formats of llama-bench's rows, by name.
pub const FORMATS: [&str; 5] = ["md", "csv", "json", "jsonl", "none"];

/// Writes rows in one of the [`FORMATS`]. Texts are to be printed as they come.
pub struct Writer {
    format: String,
    begun: bool,
}

impl Writer {
    /// Nothing written yet.
    pub fn new(format: &str) -> Self {
        Self { format: format.into(), begun: false }
    }

    /// A row; before the first one what begins the whole. Markdown has these columns, CSV all fields but lists.
    pub fn row(&mut self, row: &Value, columns: &[Column<Value>]) -> String {
        let first = !std::mem::replace(&mut self.begun, true);
        let begin = |text: String| if first { text } else { String::new() };
        match self.format.as_str() {
            "md" => begin(head(columns)) + &line(columns, row),
            "csv" => {
                let flat = row.as_object().into_iter().flatten().filter(|(_, value)| !value.is_array());
                let fields: Vec<_> = flat.map(|(name, _)| name.as_str()).collect();
                let quoted = |name: &&str| format!("\"{}\"", plain(row, name).replace('"', "\"\""));
                begin(fields.join(",") + "\n") + &fields.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
            }
            "json" => {
                let object = format!("{row:#}").replace('\n', "\n  ");
                format!("{}  {object}", if first { "[\n" } else { ",\n" })
            }
            "jsonl" => format!("{row}\n"),
            _ => String::new(),
        }
    }

    /// What ends the whole; nothing where nothing has begun. `build` stands below a table.
    pub fn end(&self, build: &str) -> String {
        match self.format.as_str() {
            "json" if self.begun => "\n]\n".into(),
            "md" if self.begun => format!("\nbuild: {build}\n"),
            _ => String::new(),
        }
    }
}
