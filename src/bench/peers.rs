//! Runs of several engines on the same work, as `benches/peers.rs` records them, and the README's table of one.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Column, fixed, list, number, percent, table, text};

/// qrun's own name among the engines.
pub const QRUN: &str = "qrun";

/// The engines in the order in which they took turns, qrun first.
pub fn engines(run: &Value) -> Vec<&str> {
    let mut engines = vec![QRUN];
    for (name, _) in list(&run["rows"]).iter().flat_map(|row| row["engines"].as_object().into_iter().flatten()) {
        if !engines.contains(&name.as_str()) {
            engines.push(name);
        }
    }
    engines
}

/// The fastest of an engine's turns, in tokens per second of its `prefill` or `decode`; `None` where it has none.
pub fn best(engine: &Value, what: &str) -> Option<f64> {
    list(&engine["turns"]).iter().filter_map(|turn| number(turn, what)).reduce(f64::max)
}

/// What was run, and on what.
pub fn describe(run: &Value) -> String {
    let machine = &run["machine"];
    let beside = match run["neighbours"].as_u64() {
        None | Some(0) => String::new(),
        Some(n) => format!(" beside {n} busy ones"),
    };
    let (cpu, commit, date) = (text(machine, "cpu"), text(machine, "commit"), text(machine, "date"));
    let (threads, prefill, decode) = (&machine["threads"], &run["prefill"], &run["decode"]);
    format!(
        "{cpu}, {threads} threads{beside}, commit {commit}, {date}; tokens per second of {prefill} tokens of prompt (pp) and \
         of {decode} after it (tg), best of the recorded turns; in brackets how many times as fast qrun is"
    )
}

/// A recorded run in Markdown: speeds of the prompt and of the steps, how many times as fast qrun is, and what each engine
/// computed with.
pub fn markdown(run: &Value) -> String {
    let (engines, prefill, decode) = (engines(run), &run["prefill"], &run["decode"]);
    let head = |name: &str| if name == QRUN { format!("{QRUN} pp{prefill} / tg{decode}") } else { name.to_owned() };
    let mut columns: Vec<Column<&Value>> = vec![
        Column::left("model", 0, |row: &&Value| text(row, "model").into()),
        Column::left("type", 0, |row: &&Value| text(row, "type").into()),
    ];
    for &name in &engines {
        let cell = move |row: &Value, what: &str| {
            let (engine, ours) = (&row["engines"][name], best(&row["engines"][QRUN], what));
            match (best(engine, what), ours) {
                (Some(speed), Some(ours)) if name != QRUN => format!("{speed:.1} (×{:.2})", ours / speed),
                (None, _) if engine["failed"].is_string() => "failed".into(),
                (speed, _) => fixed(speed, 1),
            }
        };
        columns.push(Column::right(head(name), 0, move |row: &&Value| {
            let [prompt, steps] = ["prefill", "decode"].map(|what| cell(row, what));
            if prompt == steps { prompt } else { format!("{prompt} / {steps}") }
        }));
    }
    columns.push(Column::right("tg of memory bandwidth", 0, |row: &&Value| {
        let bytes = [number(row, "bytes_per_token"), number(row, "read_gb_per_s")];
        match (best(&row["engines"][QRUN], "decode"), bytes) {
            (Some(steps), [Some(bytes), Some(limit)]) => percent(Some(steps * bytes / 1e9 / limit)),
            _ => String::new(),
        }
    }));
    let rows: Vec<&Value> = list(&run["rows"]).iter().collect();
    let about: String = engines.iter().map(|name| about(name, list(&run["rows"]))).collect();
    let skipped = run["skipped"].as_object().into_iter().flatten();
    let skipped: String =
        skipped.map(|(name, why)| format!("* {name}: not run: {}\n", why.as_str().unwrap_or_default())).collect();
    format!("{}\n\n{}\n{about}{skipped}", describe(run), table(&columns, &rows))
}

/// What an engine computed with: versions, weights, precision, as its turns say; where it failed, and why.
fn about(name: &str, rows: &[Value]) -> String {
    let mut facts: [BTreeSet<String>; 3] = Default::default();
    for row in rows {
        let engine = &row["engines"][name];
        for turn in list(&engine["turns"]) {
            let versions = turn["versions"].as_object().into_iter().flatten();
            facts[0].extend(versions.map(|(package, v)| format!("{package} {}", v.as_str().unwrap_or_default())));
            facts[1].extend(turn["weights"].as_str().map(str::to_owned));
            facts[2].extend(turn["precision"].as_str().map(str::to_owned));
        }
        if let Some(why) = engine["failed"].as_str() {
            facts[2].insert(format!("{} {} failed: {why}", text(row, "model"), text(row, "type")));
        }
    }
    let parts = facts.into_iter().filter(|f| !f.is_empty()).map(|f| f.into_iter().collect::<Vec<_>>().join(", "));
    format!("* {name}: {}\n", parts.collect::<Vec<_>>().join("; "))
}
