//! The forms in which vectors are written: llama-embedding's, but for numbers in full where programs read them.

use std::io::{self, Write};

use crate::embed::{Normalize, Pooling, cosine};

/// `--embd-output-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people: the ends of vectors where there are many, and similarities.
    Plain,
    /// `[[…],…]`.
    Array,
    /// As an answer of OpenAI's API.
    Json,
    /// The same with similarities.
    JsonPlus,
    /// A line for each vector.
    Raw,
}

/// What is written.
pub struct Shown<'a> {
    /// `[n][width]`.
    pub vectors: &'a [f32],
    pub width: usize,
    pub texts: &'a [String],
    pub normalize: Normalize,
}

impl Form {
    /// # Errors
    /// What is expected.
    pub fn read(name: &str) -> Result<Self, String> {
        match name {
            "" => Ok(Self::Plain),
            "array" => Ok(Self::Array),
            "json" => Ok(Self::Json),
            "json+" => Ok(Self::JsonPlus),
            "raw" => Ok(Self::Raw),
            _ => Err("expected json, json+, array, raw or \"\"".to_owned()),
        }
    }

    /// Writes all vectors.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(self, shown: &Shown, pooling: Pooling, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Plain => shown.plain(pooling, out),
            Self::Array => {
                let vectors: Vec<String> = shown.rows().map(|row| format!("[{}]", shown.numbers(row, ","))).collect();
                writeln!(out, "[{}]", vectors.join(","))
            }
            Self::Json => shown.json(out, false),
            Self::JsonPlus => shown.json(out, true),
            Self::Raw => shown.rows().try_for_each(|row| writeln!(out, "{}", shown.numbers(row, " "))),
        }
    }
}

impl Shown<'_> {
    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.vectors.chunks_exact(self.width)
    }

    /// Numbers with as many digits as tell them apart; whole ones where vectors are scaled to 16-bit integers.
    fn numbers(&self, row: &[f32], between: &str) -> String {
        let number = |x: &f32| match self.normalize {
            Normalize::Int16 => format!("{x:.0}"),
            Normalize::None | Normalize::Norm(_) => x.to_string(),
        };
        row.iter().map(number).collect::<Vec<_>>().join(between)
    }

    /// Numbers in columns.
    fn columns(&self, row: &[f32]) -> String {
        let column = |x: &f32| match self.normalize {
            Normalize::Int16 => format!("{x:6.0} "),
            Normalize::None | Normalize::Norm(_) => format!("{x:9.6} "),
        };
        row.iter().map(column).collect()
    }

    fn plain(&self, pooling: Pooling, out: &mut dyn Write) -> io::Result<()> {
        for (i, row) in self.rows().enumerate() {
            let ends = 3.min(row.len());
            let numbers = match pooling {
                Pooling::None => {
                    format!("{} ... {}", self.columns(&row[..ends]), self.columns(&row[row.len() - ends..]))
                }
                _ if self.texts.len() > 1 => self.columns(&row[..16.min(row.len())]),
                _ => self.columns(row),
            };
            writeln!(out, "embedding {i}: {numbers}")?;
        }
        if pooling == Pooling::None || self.texts.len() < 2 {
            return Ok(());
        }
        let head = |text: &str, most: usize| {
            let line: String = text.chars().take(most).collect();
            crate::cli::output::printable(&line.replace(['\n', '\t'], " "))
        };
        writeln!(out, "\ncosine similarity matrix:\n")?;
        writeln!(out, "{}", self.texts.iter().map(|text| format!("{:>6} ", head(text, 6))).collect::<String>())?;
        for (row, text) in self.rows().zip(self.texts) {
            let similarities: String = self.rows().map(|other| format!("{:6.2} ", cosine(row, other))).collect();
            writeln!(out, "{similarities}{}", head(text, 10))?;
        }
        Ok(())
    }

    fn json(&self, out: &mut dyn Write, similarities: bool) -> io::Result<()> {
        let object = |(i, row): (usize, &[f32])| {
            let numbers = self.numbers(row, ",");
            format!(
                "    {{\n      \"object\": \"embedding\",\n      \"index\": {i},\n      \"embedding\": [{numbers}]\n    }}"
            )
        };
        let objects: Vec<String> = self.rows().enumerate().map(object).collect();
        write!(out, "{{\n  \"object\": \"list\",\n  \"data\": [\n{}\n  ]", objects.join(",\n"))?;
        if similarities && objects.len() > 1 {
            let line = |row| {
                let cosines: Vec<String> = self.rows().map(|other| format!("{:6.2}", cosine(row, other))).collect();
                format!("    [{} ]", cosines.join(", "))
            };
            let lines: Vec<String> = self.rows().map(line).collect();
            write!(out, ",\n  \"cosineSimilarity\": [\n{}\n  ]", lines.join(",\n"))?;
        }
        writeln!(out, "\n}}")
    }
}
