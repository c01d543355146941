//! Runs of `qrun serve` beside llama-server, as `benches/serve.rs` records them, and the README's table of one.

use serde_json::Value;

use super::{
    Column, fixed, list, median,
    peers::{QRUN, machine},
    percent, table, text,
};

/// The engine of qrun without its server, among the servers.
pub const INSIDE: &str = "in process";
/// The server of llama.cpp.
pub const LLAMA_SERVER: &str = "llama-server";

/// A line of the table: what is measured, qrun's figure, and the peer's.
type Line = [String; 3];

/// The median of what a server's turns say at a place (a JSON pointer); `None` where it took no turn.
fn figure(row: &Value, server: &str, place: &str) -> Option<f64> {
    let turns = list(&row["servers"][server]["turns"]);
    let figures: Vec<f64> = turns.iter().filter_map(|turn| turn.pointer(place)?.as_f64()).collect();
    (!figures.is_empty()).then(|| median(&figures))
}

/// What both servers say: `say` makes it of their figures at some places, where all are there.
fn both<const N: usize>(row: &Value, what: &str, places: [&str; N], say: impl Fn([f64; N]) -> String) -> Line {
    let of = |server| {
        let figures = places.map(|place| figure(row, server, place));
        if figures.contains(&None) { "–".into() } else { say(figures.map(Option::unwrap_or_default)) }
    };
    [what.into(), of(QRUN), of(LLAMA_SERVER)]
}

/// Tokens per second of several numbers of requests, and what part of the speed in process that is.
fn decode(rows: &[Value]) -> [Line; 2] {
    let all = |say: &dyn Fn(&Value) -> String| rows.iter().map(say).collect::<Vec<_>>().join(" / ");
    let speed = |server: &'static str| move |row: &Value| figure(row, server, "/tps");
    let of = |row: &Value, other| Some(speed(QRUN)(row)? / speed(other)(row)?);
    let times = |row: &Value| of(row, LLAMA_SERVER).map_or("–".into(), |times| format!("×{times:.2}"));
    let peer = rows.iter().any(|row| speed(LLAMA_SERVER)(row).is_some());
    let peers = || format!("{} ({})", all(&|row| fixed(speed(LLAMA_SERVER)(row), 1)), all(&times));
    let requests = all(&|row| row["requests"].to_string());
    [
        [
            format!("tokens per second, {requests} at once"),
            all(&|row| fixed(speed(QRUN)(row), 1)),
            if peer { peers() } else { "–".into() },
        ],
        ["of the same in process".into(), all(&|row| percent(of(row, INSIDE))), "–".into()],
    ]
}

/// A recorded run in Markdown.
pub fn markdown(run: &Value) -> String {
    let rows = |load: &str| list(&run["loads"][load]);
    let mut lines: Vec<Line> = decode(rows("decode")).into();
    for row in rows("decode").iter().filter(|row| row["requests"] == 16) {
        lines.push(both(row, "memory of 16 at once, at most", ["/peak"], |[peak]| megabytes(peak)));
    }
    for row in rows("gap") {
        let what =
            "3 streams, and a prompt of 2,000 tokens comes: their longest gap; speed of the prompt, of its speed alone";
        let say = |[longest, of]: [f64; 2]| format!("{longest:.0} ms; {}", percent(Some(of)));
        lines.push(both(row, what, ["/longest_ms", "/of_alone"], say));
    }
    for row in rows("prefix") {
        let what = "4 at once, 1,000 cached tokens and 4 (16) of their own: the last one's first token; prompt tokens computed";
        let places = ["/cached/last_ms", "/cached_16/last_ms", "/cached/computed", "/cached_16/computed"];
        let text = |[last, last_16, n, n_16]: [f64; 4]| format!("{last:.0} ({last_16:.0}) ms; {n:.0} ({n_16:.0})");
        lines.push(both(row, what, places, text));
    }
    for row in rows("overload") {
        let what = "4 times the load it can carry: refusals, p99; tokens take; memory";
        let places = ["/refusal_p99_ms", "/gap_over_mean_ms", "/gap_full_mean_ms", "/rss_before", "/rss_after"];
        lines.push(both(row, what, places, |[refusal, over, full, before, after]| {
            format!("{refusal:.1} ms; ×{:.2}; {:+.0} MB", over / full, (after - before) / 1e6)
        }));
    }
    for row in rows("idle") {
        let n = figure(row, QRUN, "/connections").unwrap_or_default();
        let say = |[bytes, p99]: [f64; 2]| format!("{}; {p99:.2} ms", megabytes(bytes));
        lines.push(both(
            row,
            &format!("{n:.0} idle connections; `/health` beside them, p99"),
            ["/bytes", "/health_p99_ms"],
            say,
        ));
    }
    for row in rows("bytes") {
        let what = "a token is chosen to its event at the client, median: 1 stream, 4";
        let say = |[one, four]: [f64; 2]| format!("{one:.2}, {four:.2} ms");
        lines.push(both(row, what, ["/0/sent_ms", "/1/sent_ms"], say));
    }
    let columns: [Column<Line>; 3] = [
        Column::left("", 0, |line: &Line| line[0].clone()),
        Column::right("qrun serve", 0, |line: &Line| line[1].clone()),
        Column::right(LLAMA_SERVER, 0, |line: &Line| line[2].clone()),
    ];
    format!("{}\n\n{}", describe(run), table(&columns, &lines))
}

fn megabytes(bytes: f64) -> String {
    format!("{:.0} MB", bytes / 1e6)
}

/// What was run, and on what.
fn describe(run: &Value) -> String {
    let [model, ty] = ["model", "type"].map(|field| text(run, field));
    format!(
        "Many requests at once (`cargo bench --bench serve -- --llama-server FILE`): {}; {model} {ty}, random weights; \
         medians of the recorded turns",
        machine(run)
    )
}
