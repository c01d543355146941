//! Runs of several engines on the same work, as `benches/peers.rs` records them, and the README's table of one.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Column, fields::distinct, fixed, list, number, percent, table, text};

/// qrun's own name among the engines.
pub const QRUN: &str = "qrun";

/// The engines in the order in which they took turns, qrun first.
pub fn engines(run: &Value) -> Vec<&str> {
    let taken = list(&run["rows"]).iter().filter_map(|row| row["engines"].as_object()).flatten();
    distinct([QRUN].into_iter().chain(taken.map(|(name, _)| name.as_str())), |&name| name)
}

/// The fastest of an engine's turns, in tokens per second of its `prefill` or `decode`; `None` where it has none.
pub fn best(engine: &Value, what: &str) -> Option<f64> {
    list(&engine["turns"]).iter().filter_map(|turn| number(turn, what)).reduce(f64::max)
}

/// What was run, and on what.
pub fn describe(run: &Value) -> String {
    format!("{}; {}", machine(run), numbers(run))
}

/// Where, and from what commit.
pub fn machine(run: &Value) -> String {
    let machine = &run["machine"];
    let beside = match run["neighbours"].as_u64() {
        None | Some(0) => String::new(),
        Some(n) => format!(" beside {n} busy ones"),
    };
    let (cpu, commit, date) = (text(machine, "cpu"), text(machine, "commit"), text(machine, "date"));
    format!("{cpu}, {} threads{beside}, commit {commit}, {date}", machine["threads"])
}

/// What the numbers of the table are.
fn numbers(run: &Value) -> String {
    let (prefill, decode) = (&run["prefill"], &run["decode"]);
    format!(
        "tokens per second of {prefill} tokens of prompt (pp) and of {decode} after it (tg), best of the recorded turns; in \
         brackets how many times as fast qrun is"
    )
}

/// A recorded run in Markdown, beside it the same work on other machines: speeds of the prompt and of the steps, how many times
/// as fast qrun is, and what each engine computed with.
pub fn markdown(runs: &[Value]) -> String {
    let [first, others @ ..] = runs else { return String::new() };
    let mut columns = vec![
        Column::left("model", 0, |row: &Value| text(row, "model").into()),
        Column::left("type", 0, |row: &Value| text(row, "type").into()),
    ];
    columns.extend(columns_of(first, ""));
    let mut machines = machine(first);
    for (n, run) in others.iter().enumerate() {
        columns.extend(columns_of(run, &format!(" ({})", n + 2)));
        machines += &format!("; ({}) {}", n + 2, machine(run));
    }
    let (mut about, mut names) = (String::new(), BTreeSet::new());
    for run in runs {
        for name in engines(run).into_iter().filter(|name| names.insert(name.to_string())) {
            about += &self::about(name, list(&run["rows"]));
        }
    }
    // What another machine has run was not left out.
    let skipped = runs.iter().flat_map(|run| run["skipped"].as_object().into_iter().flatten());
    for (name, why) in skipped.filter(|(name, _)| names.insert(name.to_string())) {
        about += &format!("* {name}: not run: {}\n", why.as_str().unwrap_or_default());
    }
    format!("{machines}; {}\n\n{}\n{about}", numbers(first), table(&columns, list(&first["rows"])))
}

/// The columns of one run, whose heads end with `mark`; a row is one of any run.
fn columns_of<'a>(run: &'a Value, mark: &str) -> Vec<Column<'a, Value>> {
    let same = move |row: &Value| {
        let is_same = |own: &&Value| ["model", "type"].iter().all(|key| own[key] == row[key]);
        list(&run["rows"]).iter().find(is_same).unwrap_or(&Value::Null)
    };
    let head = |name: &str| match name {
        QRUN => format!("{QRUN} pp{} / tg{}{mark}", run["prefill"], run["decode"]),
        _ => format!("{name}{mark}"),
    };
    let mut columns = Vec::new();
    for name in engines(run) {
        let cell = move |row: &Value, what: &str| {
            let (engine, ours) = (&row["engines"][name], best(&row["engines"][QRUN], what));
            match (best(engine, what), ours) {
                (Some(speed), Some(ours)) if name != QRUN => format!("{speed:.1} (×{:.2})", ours / speed),
                (None, _) if engine["failed"].is_string() => "failed".into(),
                (speed, _) => fixed(speed, 1),
            }
        };
        columns.push(Column::right(head(name), 0, move |row: &Value| {
            let [prompt, steps] = ["prefill", "decode"].map(|what| cell(same(row), what));
            if prompt == steps { prompt } else { format!("{prompt} / {steps}") }
        }));
    }
    columns.push(Column::right(format!("tg of memory bandwidth{mark}"), 0, move |row: &Value| {
        share_of_bandwidth(same(row)).map_or(String::new(), |share| percent(Some(share)))
    }));
    columns
}

/// Of the bandwidth of a row's machine, what qrun's steps read.
fn share_of_bandwidth(row: &Value) -> Option<f64> {
    let steps = best(&row["engines"][QRUN], "decode")?;
    Some(steps * number(row, "bytes_per_token")? / 1e9 / number(row, "read_gb_per_s")?)
}

/// The engine that qrun is to be faster than, and how many times.
const RIVAL: &str = "llama-cpp";
const GOALS: [(&str, f64); 2] = [("prefill", 2.0), ("decode", 1.25)];
/// Where steps read so much of the bandwidth, nothing could be that many times as fast.
const BANDWIDTH_GOAL: f64 = 0.85;

/// A line for each row in which qrun and llama.cpp ran: whether prompts and steps are as much faster as they are to be.
pub fn verdicts(run: &Value) -> Vec<String> {
    let of_row = |row: &Value| {
        let share = share_of_bandwidth(row);
        let parts = GOALS.map(|(what, goal)| {
            let times = best(&row["engines"][QRUN], what)? / best(&row["engines"][RIVAL], what)?;
            let share = share.filter(|_| what == "decode");
            let near = share.map_or(String::new(), |share| format!(", {} of bandwidth", percent(Some(share))));
            Some(match times >= goal || share.is_some_and(|share| share >= BANDWIDTH_GOAL) {
                true => format!("{what} ×{times:.2}{near}: reached"),
                false => format!("{what} ×{times:.2}{near}: missed (×{goal})"),
            })
        });
        let [Some(prefill), Some(decode)] = parts else { return None };
        Some(format!("{} {}: {prefill}; {decode}", text(row, "model"), text(row, "type")))
    };
    list(&run["rows"]).iter().filter_map(of_row).collect()
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
