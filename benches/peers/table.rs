//! The README's table of a recorded run.

use std::collections::BTreeSet;

use qrun::bench::plot::recorded::best;
use serde_json::Value;

/// qrun's own name among the engines.
pub const QRUN: &str = "qrun";

/// Markdown, or nothing where the JSON is not a run of this bench.
pub fn markdown(run: &Value) -> Option<String> {
    let machine = &run["machine"];
    let rows = run["rows"].as_array()?;
    // In the order in which they took turns, qrun first.
    let mut engines = vec![QRUN];
    for (name, _) in rows.iter().flat_map(|row| row["engines"].as_object().into_iter().flatten()) {
        if !engines.contains(&name.as_str()) {
            engines.push(name);
        }
    }
    let (prefill, decode) = (run["prefill"].as_u64()?, run["decode"].as_u64()?);
    let beside = match run["neighbours"].as_u64() {
        None | Some(0) => String::new(),
        Some(n) => format!(" beside {n} busy ones"),
    };
    let mut out = format!(
        "{}, {} threads{beside}, commit {}, {}; tokens per second of {prefill} tokens of prompt (pp) and of {decode} after it \
         (tg), best of the recorded turns; in brackets how many times as fast qrun is\n\n",
        machine["cpu"].as_str()?,
        machine["threads"],
        machine["commit"].as_str()?,
        machine["date"].as_str()?,
    );
    out += &format!("| model | type | | {} | of memory bandwidth |\n", engines.join(" | "));
    out += &format!("|---|---|---|{}--:|\n", "--:|".repeat(engines.len()));
    for row in rows {
        for (what, label) in [("prefill", format!("pp{prefill}")), ("decode", format!("tg{decode}"))] {
            let ours = best(&row["engines"][QRUN], what);
            let peers = engines[1..].iter().map(|name| format!(" {} |", cell(&row["engines"][name], what, ours)));
            let share = match (what, ours, row["read_gb_per_s"].as_f64()) {
                ("decode", Some(ours), Some(limit)) => {
                    format!("{:.0} %", 100.0 * ours * row["bytes_per_token"].as_f64()? / 1e9 / limit)
                }
                _ => String::new(),
            };
            let (model, ty) = (row["model"].as_str()?, row["type"].as_str()?);
            let first = cell(&row["engines"][QRUN], what, None);
            out += &format!("| {model} | {ty} | {label} | {first} |{} {share} |\n", peers.collect::<String>());
        }
    }
    out.push('\n');
    for name in engines {
        out += &about(name, rows)?;
    }
    for (name, why) in run["skipped"].as_object().into_iter().flatten() {
        out += &format!("* {name}: not run: {}\n", why.as_str()?);
    }
    Some(out)
}

/// The block of the README that holds the table.
pub fn block(readme: &str) -> Option<&str> {
    readme.split_once("<!-- peers -->")?.1.split_once("<!-- end -->").map(|(block, _)| block)
}

/// The README with this table in its block.
#[allow(dead_code)] // The test that holds README and record together only reads.
pub fn in_readme(readme: &str, table: &str) -> Option<String> {
    let old = block(readme)?;
    Some(readme.replacen(&format!("<!-- peers -->{old}"), &format!("<!-- peers -->\n{table}"), 1))
}

/// An engine's speed, and how many times as fast qrun is, if that is known and another.
fn cell(engine: &Value, what: &str, ours: Option<f64>) -> String {
    match (best(engine, what), ours) {
        (Some(speed), Some(ours)) => format!("{speed:.1} (×{:.2})", ours / speed),
        (Some(speed), None) => format!("{speed:.1}"),
        (None, _) if engine["failed"].is_string() => "failed".into(),
        (None, _) => "–".into(),
    }
}

/// What an engine computed with: versions, weights, precision, as its turns say.
fn about(name: &str, rows: &[Value]) -> Option<String> {
    let mut facts: Vec<BTreeSet<String>> = vec![BTreeSet::new(); 3];
    for row in rows {
        let engine = &row["engines"][name];
        for turn in engine["turns"].as_array().into_iter().flatten() {
            let versions = turn["versions"].as_object().into_iter().flatten();
            facts[0].extend(versions.filter_map(|(package, v)| Some(format!("{package} {}", v.as_str()?))));
            facts[1].extend(turn["weights"].as_str().map(str::to_owned));
            facts[2].extend(turn["precision"].as_str().map(str::to_owned));
        }
        if let Some(why) = engine["failed"].as_str() {
            facts[2].insert(format!("{} {} failed: {why}", row["model"].as_str()?, row["type"].as_str()?));
        }
    }
    let parts = facts.into_iter().filter(|f| !f.is_empty()).map(|f| f.into_iter().collect::<Vec<_>>().join(", "));
    Some(format!("* {name}: {}\n", parts.collect::<Vec<_>>().join("; ")))
}
