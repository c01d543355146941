//! `cuda/sass.json`: what the committed archive is made of, and the counts that must not get worse.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Error, Result};
use qrun_cuda::image::Kind;
use serde_json::{Map, Value, json};

use crate::{
    cache::sha256,
    listings::listing,
    make::{Module, on_all_processors},
    sass,
    tools::Tools,
};

/// `table[name][sm]`.
type Table<V> = BTreeMap<String, BTreeMap<u32, V>>;

/// What is recorded of an archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Hash of the archive's bytes.
    pub sha256: String,
    /// What it is made of: see [`make::hash`](crate::make::hash).
    pub sources: String,
    /// Summed over kernels and SMs.
    pub spill_bytes: u64,
    /// By format: see [`sass`].
    pub instructions_per_weight: Table<f64>,
    /// By kernel, per thread.
    pub registers: Table<u32>,
}

impl Record {
    /// Looks at everything that was compiled.
    ///
    /// # Errors
    /// nvdisasm, whose listings `folder` keeps, is missing or fails, or a kernel that is counted has no loop that
    /// multiplies weights.
    pub fn of(modules: &[Module], archive: &[u8], sources: String, tools: &Tools, folder: &Path) -> Result<Self> {
        let (instructions_per_weight, registers) = (Table::new(), Table::new());
        let mut record = Self { sha256: sha256(archive), sources, spill_bytes: 0, instructions_per_weight, registers };
        let machine_code = || modules.iter().filter(|m| m.target.kind == Kind::Cubin);
        for module in machine_code() {
            for r in &module.resources {
                record.spill_bytes += u64::from(r.spills);
                record.registers.entry(r.kernel.clone()).or_default().insert(module.target.sm, r.registers);
            }
        }
        let counts = |m: &&Module| m.resources.iter().any(|r| format_of(&r.kernel).is_some());
        let counted: Vec<&Module> = machine_code().filter(counts).collect();
        let listings = on_all_processors(&counted, |module| {
            let listing = listing(tools.nvdisasm()?, &module.image.bytes, folder).map_err(Error::msg)?;
            Ok((module.target.sm, listing))
        })?;
        for (sm, listing) in listings {
            for kernel in sass::kernels(&listing) {
                let Some(format) = format_of(&kernel.name) else { continue };
                let per_weight = (kernel.per_weight()? * 1000.0).round() / 1000.0;
                record.instructions_per_weight.entry(format.into()).or_default().insert(sm, per_weight);
            }
        }
        Ok(record)
    }

    /// Reads the committed record; empty where the file does not exist yet.
    ///
    /// # Errors
    /// The file is no JSON, or not a record.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let Ok(text) = fs::read_to_string(path) else { return Ok(None) };
        let value: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let wrong = || format!("{}: not a record; make it anew with `kernels build --accept-worse`", path.display());
        Self::of_json(&value).with_context(wrong).map(Some)
    }

    fn of_json(value: &Value) -> Option<Self> {
        Some(Self {
            sha256: value.get("sha256")?.as_str()?.into(),
            sources: value.get("sources")?.as_str()?.into(),
            spill_bytes: value.get("spill_bytes")?.as_u64()?,
            instructions_per_weight: table(value.get("instructions_per_weight")?, Value::as_f64)?,
            registers: table(value.get("registers")?, |v| v.as_u64().and_then(|v| u32::try_from(v).ok()))?,
        })
    }

    /// The file's text: one line per format and kernel, so that a change is easy to read.
    pub fn text(&self) -> String {
        fn rows<V: Copy + Into<f64>>(table: &Table<V>) -> String {
            let number = |v: V| json!(v.into()).to_string().trim_end_matches(".0").to_owned();
            let cells = |row: &BTreeMap<u32, V>| {
                let cells: Vec<_> = row.iter().map(|(sm, v)| format!("\"{sm}\": {}", number(*v))).collect();
                cells.join(", ")
            };
            let rows: Vec<_> =
                table.iter().map(|(name, row)| format!("    {}: {{{}}}", json!(name), cells(row))).collect();
            rows.join(",\n")
        }
        format!(
            "{{\n  \"sha256\": {},\n  \"sources\": {},\n  \"spill_bytes\": {},\n  \"instructions_per_weight\": {{\n{}\n  }},\n  \"registers\": {{\n{}\n  }}\n}}\n",
            json!(self.sha256),
            json!(self.sources),
            self.spill_bytes,
            rows(&self.instructions_per_weight),
            rows(&self.registers)
        )
    }

    /// Which counts of `self` are worse than in `before`, or missing.
    pub fn worse_than(&self, before: &Self) -> Vec<String> {
        let mut worse = Vec::new();
        if self.spill_bytes > before.spill_bytes {
            worse.push(format!("{} bytes of spills, was {}", self.spill_bytes, before.spill_bytes));
        }
        for (format, row) in &before.instructions_per_weight {
            for (sm, was) in row {
                match self.instructions_per_weight.get(format).and_then(|r| r.get(sm)) {
                    Some(now) if now <= was => {}
                    Some(now) => worse.push(format!("{format} on sm_{sm}: {now} instructions per weight, was {was}")),
                    None => worse.push(format!("{format} on sm_{sm}: gone, was {was} instructions per weight")),
                }
            }
        }
        worse
    }
}

/// The format of a kernel for one column.
fn format_of(kernel: &str) -> Option<&str> {
    kernel.strip_prefix("product_1_").or_else(|| kernel.strip_prefix("gemv_").filter(|format| *format != "mixed"))
}

fn table<V>(value: &Value, read: impl Fn(&Value) -> Option<V>) -> Option<Table<V>> {
    let row = |row: &Map<String, Value>| -> Option<BTreeMap<u32, V>> {
        row.iter().map(|(sm, v)| Some((sm.parse().ok()?, read(v)?))).collect()
    };
    value.as_object()?.iter().map(|(name, v)| Some((name.clone(), row(v.as_object()?)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(count: f64) -> Record {
        Record {
            sha256: "00ff".into(),
            sources: "11".into(),
            spill_bytes: 0,
            instructions_per_weight: [("q4_k".into(), [(75, count), (80, 2.0)].into())].into(),
            registers: [("gemv_q4_k".into(), [(75, 40)].into())].into(),
        }
    }

    #[test]
    fn the_text_is_read_back() {
        let value = serde_json::from_str(&record(2.375).text()).expect("JSON");
        assert_eq!(Record::of_json(&value), Some(record(2.375)));
        assert_eq!(Record::of_json(&json!({ "sha256": "00" })), None);
    }

    #[test]
    fn more_instructions_and_spills_are_worse() {
        assert_eq!(record(2.375).worse_than(&record(2.375)), Vec::<String>::new());
        assert_eq!(record(2.0).worse_than(&record(2.375)), Vec::<String>::new());
        assert_eq!(record(2.5).worse_than(&record(2.375)).len(), 1);
        let gone = Record { instructions_per_weight: Table::new(), ..record(1.0) };
        assert_eq!(gone.worse_than(&record(2.0)).len(), 2);
        let spilled = Record { spill_bytes: 4, ..record(1.0) };
        assert_eq!(spilled.worse_than(&record(2.0)), ["4 bytes of spills, was 0"]);
    }
}
