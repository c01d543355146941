//! Tables of what is recorded in `benches/runs`: counts and predicted times of the shipped machine code.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use qrun_cuda::image::CUBINS;
use serde_json::Value;

use crate::{MODELS, code::Step};

/// The newest record of an SM.
struct Record {
    sm: u32,
    commit: String,
    /// By model.
    counts: Value,
}

/// The newest record of each SM whose name ends so.
fn newest(ending: &str) -> Result<Vec<Record>> {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/runs");
    let names = fs::read_dir(&runs)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: BTreeSet<String> = names.collect::<Result<_>>()?;
    let of = |sm: u32| Some((sm, names.iter().rfind(|n| n.ends_with(&format!("-gpu-code-sm_{sm}{ending}.json")))?));
    let mut records = Vec::new();
    for (sm, name) in CUBINS.into_iter().filter_map(of) {
        let read = || -> Result<Record> {
            let record: Value = serde_json::from_slice(&fs::read(runs.join(name))?)?;
            let commit = record["commit"].as_str().context("no commit")?.to_owned();
            Ok(Record { sm, commit, counts: record["counts"][format!("sm_{sm}")].clone() })
        };
        records.push(read().with_context(|| name.clone())?);
    }
    Ok(records)
}

/// All tables.
pub fn markdown() -> Result<String> {
    let (decode, prompt, decodes) = (newest("")?, newest("-prompt-512")?, newest("-decodes")?);
    let mut page = String::from("\n## Milliseconds per token of decoding\n\n");
    times(&mut page, &decode)?;
    for model in MODELS {
        writeln!(page, "\n## {model}: milliseconds per step, by sequences and tokens before it in each\n")?;
        batches(&mut page, &decodes, model)?;
    }
    page += "\n## Milliseconds per prompt of 512 tokens\n\n";
    times(&mut page, &prompt)?;
    page += "\n## Millions of warp instructions per token of decoding\n\n";
    instructions(&mut page, &decode)?;
    page += "\n## Bytes of the sectors that loads ask for, over the distinct bytes read\n\n";
    sectors(&mut page, &decode)?;
    let commits: BTreeSet<&str> =
        [&decode, &prompt, &decodes].into_iter().flatten().map(|record| record.commit.as_str()).collect();
    writeln!(page, "\nCounted at commit {}.", commits.into_iter().collect::<Vec<_>>().join(", "))?;
    Ok(page)
}

fn head(page: &mut String, columns: &[String]) -> Result<()> {
    writeln!(page, "| {} |", columns.join(" | "))?;
    writeln!(page, "|---|{}", "--:|".repeat(columns.len() - 1))?;
    Ok(())
}

/// The models as columns behind a first one.
fn by_model(first: &str) -> Vec<String> {
    [first].into_iter().chain(MODELS).map(str::to_owned).collect()
}

/// Floor – low – high on each card.
fn times(page: &mut String, records: &[Record]) -> Result<()> {
    head(page, &by_model("card"))?;
    for Record { sm, counts, .. } in records {
        let known = MODELS.into_iter().filter_map(|model| counts[model]["us"].as_object());
        let cards: BTreeSet<&String> = known.flat_map(|cards| cards.keys()).collect();
        for card in cards {
            write!(page, "| {card} (sm_{sm}) |")?;
            for model in MODELS {
                let us = &counts[model]["us"][card];
                let ms = ["floor", "low", "high"].map(|end| us[end].as_f64().map(|us| format!("{:.2}", us / 1e3)));
                let ms: Option<Vec<String>> = ms.into_iter().collect();
                write!(page, " {} |", ms.map_or("not run".to_owned(), |ms| ms.join(" – ")))?;
            }
            writeln!(page)?;
        }
    }
    Ok(())
}

/// Low – high of one model's steps on each card, and how many times as long as one sequence 8 take (low).
fn batches(page: &mut String, records: &[Record], model: &str) -> Result<()> {
    let names = Step::DECODES.map(Step::name);
    head(page, &["card".to_owned()].into_iter().chain(names).chain(["8 x / 1".to_owned()]).collect::<Vec<_>>())?;
    for Record { sm, counts, .. } in records {
        let steps = &counts[model];
        let of = |step: Step, card: &str, end: &str| steps[step.name()]["us"][card][end].as_f64();
        for card in steps[Step::DECODE.name()]["us"].as_object().into_iter().flatten().map(|(card, _)| card) {
            write!(page, "| {card} (sm_{sm}) |")?;
            for step in Step::DECODES {
                let ms = ["low", "high"].map(|end| of(step, card, end).map(|us| format!("{:.2}", us / 1e3)));
                let ms: Option<Vec<String>> = ms.into_iter().collect();
                write!(page, " {} |", ms.map_or("not run".to_owned(), |ms| ms.join(" – ")))?;
            }
            let (ones, eights) = Step::DECODES.split_at(Step::DECODES.len() / 2);
            let ratio = |(one, eight): (&Step, &Step)| Some(of(*eight, card, "low")? / of(*one, card, "low")?);
            let ratios: Vec<String> =
                ones.iter().zip(eights).filter_map(ratio).map(|ratio| format!("{ratio:.2}")).collect();
            writeln!(page, " {} |", ratios.join(", "))?;
        }
    }
    Ok(())
}

fn instructions(page: &mut String, records: &[Record]) -> Result<()> {
    head(page, &by_model("SM"))?;
    for Record { sm, counts, .. } in records {
        write!(page, "| sm_{sm} |")?;
        for model in MODELS {
            let millions = counts[model]["warp_instructions"].as_f64().map(|n| format!("{:.1}", n / 1e6));
            write!(page, " {} |", millions.unwrap_or_else(|| "not run".to_owned()))?;
        }
        writeln!(page)?;
    }
    Ok(())
}

/// Of the kernels for one column, over all models that have the format.
fn sectors(page: &mut String, records: &[Record]) -> Result<()> {
    let mut kernels: BTreeMap<&str, BTreeMap<u32, [f64; 2]>> = BTreeMap::new();
    for Record { sm, counts, .. } in records {
        let of_models = MODELS.into_iter().filter_map(|model| counts[model]["kernels"].as_object());
        for (kernel, row) in of_models.flatten().filter(|(kernel, _)| {
            ["gemv_", "product_1_", "norm_product_"].iter().any(|family| kernel.starts_with(family))
        }) {
            let sum = kernels.entry(kernel).or_default().entry(*sm).or_default();
            sum[0] += 32.0 * row["loads"]["sectors"].as_f64().context("a count of sectors")?;
            sum[1] += row["distinct_bytes_read"].as_f64().context("a count of bytes")?;
        }
    }
    let columns = records.iter().map(|record| format!("sm_{}", record.sm));
    head(page, &["kernel".to_owned()].into_iter().chain(columns).collect::<Vec<_>>())?;
    for (kernel, by_sm) in kernels {
        write!(page, "| {kernel} |")?;
        for Record { sm, .. } in records {
            let ratio = by_sm.get(sm).map(|[asked, distinct]| format!("{:.2}", asked / distinct));
            write!(page, " {} |", ratio.unwrap_or_default())?;
        }
        writeln!(page)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_of_predictions_is_made_from_the_records() {
        let page = include_str!("../../../benches/predictions.md");
        assert!(page.ends_with(&super::markdown().expect("records")), "benches/predictions.sh --write");
    }
}
