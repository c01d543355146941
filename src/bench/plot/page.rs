//! The sheet: what was measured where, panels of bars and lines, and what it was measured with.

use serde_json::Value;

use super::canvas::{BOLD, Canvas, Color, GRID, INK, Letters, NOTE, PLAIN, WIDTH, lines, width};
use crate::bench::{list, machine, number, peers, percent, quotient, record, suite, text};

/// Okabe and Ito's colours, which people tell apart whatever they see, without the yellow that white swallows.
const COLORS: [Color; 7] =
    [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233], [110, 110, 118]];
const MARGIN: f64 = 32.0;
/// What panels have to draw in.
const INNER: f64 = WIDTH - 2.0 * MARGIN;
/// Configurations that one picture holds.
const MAX_CONFIGS: usize = 12;
const GRAY: Letters = Letters { align: 0.5, ..NOTE };

fn color(i: usize) -> Color {
    COLORS[i % COLORS.len()]
}

/// Draws all that there is; `None` where memory does not hold it.
pub fn draw(records: &[Value]) -> Option<Canvas> {
    // Drawn twice: the first time tells how high the sheet is.
    let height = page(&mut Canvas::new(1.0)?, records);
    let mut canvas = Canvas::new(height)?;
    page(&mut canvas, records);
    Some(canvas)
}

/// Returns the height.
fn page(canvas: &mut Canvas, records: &[Value]) -> f64 {
    let (runs, reports): (Vec<_>, Vec<_>) = records.iter().cloned().partition(|record| record.get("rows").is_some());
    let first = reports.first();
    let about = first.map(|report| suite::describe(report).trim_start_matches("- ").replace("**", ""));
    let about = about.or_else(|| runs.first().map(peers::describe)).unwrap_or_default();
    canvas.text(&first.map_or("qrun bench".into(), record::name), (MARGIN, 40.0), Letters { size: 24.0, ..BOLD });
    let mut y = 76.0;
    for line in lines(&about, NOTE, INNER) {
        canvas.text(&line, (MARGIN, y), NOTE);
        y += 18.0;
    }
    if let Some(report) = first.filter(|report| !configs(report).is_empty()) {
        y = shares(report).draw(canvas, y);
        y = latency(canvas, y, report);
    }
    if reports.len() > 1 {
        y = beside(&reports).draw(canvas, y);
    }
    for run in &runs {
        y = engines(run).draw(canvas, y);
    }
    canvas.text("how to read this: benches/README.md", (MARGIN, y + 30.0), NOTE);
    y + 54.0
}

/// Bars in groups, in two columns: of the decode, and of the prompt.
struct Bars {
    title: String,
    /// What the colours stand for; without keys each column has its own.
    keys: Vec<String>,
    columns: [&'static str; 2],
    /// Names of the groups, and the bars of each series: length, number, and what is said behind it.
    groups: Vec<([String; 2], Vec<[Bar; 2]>)>,
    /// The length at which a line stands.
    limit: Option<f64>,
}

/// `None` where nothing was measured.
type Bar = Option<(f64, String, String)>;

/// How much of what the machine could do at most each configuration reaches.
fn shares(report: &Value) -> Bars {
    // A larger share is not a measurement: the limit is wrong. No steps, no share: 0 tok/s is not 0 % of something.
    let bar = |m: &Value, what: [&str; 2]| {
        let share = quotient(m, what).filter(|share| *share > 0.0 && *share <= 100.0)?;
        Some((share, percent(Some(share)), format!("{} t/s", digits(number(m, what[0])?))))
    };
    let group = |m: &Value| (sizes(m), vec![[suite::DECODE, suite::PROMPT].map(|what| bar(m, what))]);
    Bars {
        title: "How much of the machine is used".into(),
        keys: Vec::new(),
        columns: ["decode: share of the memory limit", "prompt: share of the arithmetic limit"],
        groups: configs(report).iter().map(group).collect(),
        limit: Some(1.0),
    }
}

/// As many configurations as one picture holds.
fn configs(report: &Value) -> &[Value] {
    let configs = list(&report["configs"]);
    &configs[..configs.len().min(MAX_CONFIGS)]
}

/// The name of a configuration, and its tokens.
fn sizes(m: &Value) -> [String; 2] {
    [text(m, "config_name").into(), format!("{} + {}", m["prompt_tokens"], m["max_new_tokens"])]
}

/// Of the decode, and of the prompt.
type Speeds = [Option<f64>; 2];

/// Speeds of each series beside each other; × is the ratio to the first.
fn speeds(title: String, keys: Vec<String>, groups: Vec<([String; 2], Vec<Speeds>)>) -> Bars {
    let bar = |speeds: &[Speeds], i: usize, what: usize| {
        let speed = speeds[i][what].filter(|speed| *speed > 0.0)?;
        let first = speeds[0][what].filter(|first| *first > 0.0 && i > 0);
        Some((speed, digits(speed), first.map_or(String::new(), |first| format!("×{:.2}", speed / first))))
    };
    let bars = |speeds: Vec<Speeds>| (0..speeds.len()).map(|i| [0, 1].map(|what| bar(&speeds, i, what))).collect();
    let columns = ["decode, tokens per second (× beside the first)", "prompt, tokens per second (× beside the first)"];
    let groups = groups.into_iter().map(|(names, speeds)| (names, bars(speeds))).collect();
    Bars { title, keys, columns, groups, limit: None }
}

/// The same configurations in several reports.
fn beside(reports: &[Value]) -> Bars {
    let of = |m: Option<&Value>| [suite::DECODE, suite::PROMPT].map(|[speed, _]| number(m?, speed));
    let rows = suite::rows(reports).into_iter().take(MAX_CONFIGS);
    let groups = rows.map(|row| (sizes(row), reports.iter().map(|r| of(suite::same(r, row))).collect())).collect();
    let name = |report: &Value| {
        let (m, made) = (&report["machine"], record::made(&report["machine"]));
        let day = made.split('T').next().unwrap_or_default();
        format!("{} on {}, {day}", record::name(report), machine::name(m))
    };
    speeds("Beside other reports".into(), reports.iter().map(name).collect(), groups)
}

/// The same work through several engines: the best of their turns.
fn engines(run: &Value) -> Bars {
    let names = peers::engines(run);
    let groups = list(&run["rows"]).iter().map(|row| {
        let of = |name: &&str| ["decode", "prefill"].map(|what| peers::best(&row["engines"][*name], what));
        (["model", "type"].map(|field| text(row, field).into()), names.iter().map(of).collect())
    });
    let (prefill, decode) = (&run["prefill"], &run["decode"]);
    let title = format!("The same work through other engines, {prefill} tokens of prompt and {decode} after it");
    speeds(title, names.iter().map(|name| (*name).to_owned()).collect(), groups.collect())
}

/// A heading, and what the colours stand for; returns where the panel goes on.
fn heading(canvas: &mut Canvas, top: f64, title: &str, keys: &[String]) -> f64 {
    canvas.text(title, (MARGIN, top + 35.0), Letters { size: 16.0, ..BOLD });
    let (mut x, mut y) = (MARGIN, top + 62.0);
    for (i, key) in keys.iter().enumerate() {
        let wide = 40.0 + width(key, PLAIN);
        if x + wide > WIDTH && x > MARGIN {
            (x, y) = (MARGIN, y + 20.0);
        }
        canvas.rect((x, y - 5.0), (10.0, 10.0), color(i));
        canvas.text(key, (x + 16.0, y), PLAIN);
        x += wide;
    }
    if keys.is_empty() { y } else { y + 24.0 }
}

impl Bars {
    /// Returns where the panel ends.
    fn draw(&self, canvas: &mut Canvas, top: f64) -> f64 {
        const NAMES: f64 = 124.0;
        /// The space for numbers behind the longest bar.
        const NUMBERS: f64 = 112.0;
        let column = (INNER - NAMES) / 2.0;
        let mut y = heading(canvas, top, &self.title, &self.keys);
        let lefts = [MARGIN + NAMES, MARGIN + NAMES + column];
        let long = [0, 1].map(|c| {
            let lengths = self.groups.iter().flat_map(|(_, bars)| bars).filter_map(|bars| Some(bars[c].as_ref()?.0));
            (column - NUMBERS) / lengths.chain(self.limit).fold(f64::MIN_POSITIVE, f64::max)
        });
        for (title, left) in self.columns.into_iter().zip(lefts) {
            canvas.text(title, (left, y), NOTE);
        }
        y += 14.0;
        for (names, series) in &self.groups {
            let thick = if series.len() > 1 { 14.0 } else { 31.0 };
            let height = (thick + 3.0) * series.len() as f64;
            canvas.text(&names[0], (MARGIN, y + height / 2.0 - 10.0), Letters { size: 13.0, ..BOLD });
            canvas.text(&names[1], (MARGIN, y + height / 2.0 + 7.0), NOTE);
            for (c, left) in lefts.into_iter().enumerate() {
                for (i, bars) in series.iter().enumerate() {
                    let (length, label, behind) = bars[c].clone().unwrap_or((0.0, "–".into(), String::new()));
                    // Numbers stand behind the limit, which would cross them.
                    let end = left + length.max(self.limit.unwrap_or(0.0)) * long[c];
                    let at = y + (thick + 3.0) * i as f64;
                    let color = color(if self.keys.is_empty() { 4 * c } else { i });
                    canvas.rect((left, at), (length * long[c], thick), color);
                    canvas.text(&label, (end + 6.0, at + thick / 2.0), BOLD);
                    canvas.text(&behind, (end + 52.0, at + thick / 2.0), NOTE);
                }
                for (x, color) in [(left, GRID)].into_iter().chain(self.limit.map(|at| (left + at * long[c], INK))) {
                    canvas.line(&[(x, y - 4.0), (x, y + height + 1.0)], 1.0, color);
                }
            }
            y += height + 12.0;
        }
        y
    }
}

/// How long a step takes, over the position of its token; returns where the panel ends.
fn latency(canvas: &mut Canvas, top: f64, report: &Value) -> f64 {
    let key = |m: &Value| {
        let steps = m["per_step_latency_n"].as_u64().unwrap_or(0);
        let latency = |p| number(m, &format!("per_step_latency_{p}_ms")).filter(|_| steps > 0);
        let latencies = ["p50", "p95", "p99"].map(|p| latency(p).map_or("–".into(), digits));
        format!("{}: {}", text(m, "config_name"), latencies.join(" · "))
    };
    let (configs, title) = (configs(report), "Time of a step over the position of its token (P50 · P95 · P99 in ms)");
    let note = heading(canvas, top, title, &configs.iter().map(key).collect::<Vec<_>>());
    canvas.text("ms per step: medians over the parts of each answer and over the trials", (MARGIN, note), NOTE);
    let all: Vec<_> = configs.iter().map(parts).collect();
    let points = || all.iter().flatten();
    let [first, last] = [f64::min, f64::max].map(|of| points().map(|p| p.0).reduce(of).unwrap_or(0.0));
    let most = points().map(|p| 1.2 * p.1).fold(f64::MIN_POSITIVE, f64::max);
    let (left, right, upper, lower) = (MARGIN + 40.0, WIDTH - MARGIN, note + 16.0, note + 220.0);
    let x = |value: f64| left + (right - left) * (value - first) / (last - first).max(1.0);
    let y = |value: f64| lower - (lower - upper) * value / most;
    for (value, label) in ticks(0.0, most) {
        canvas.line(&[(left, y(value)), (right, y(value))], 1.0, GRID);
        canvas.text(&label, (left - 8.0, y(value)), Letters { align: 1.0, ..NOTE });
    }
    for (value, label) in ticks(first, last) {
        canvas.text(&label, (x(value), lower + 12.0), GRAY);
    }
    canvas.text("position in the context, tokens", ((left + right) / 2.0, lower + 32.0), GRAY);
    // The longest lines below, so that the short ones stay visible.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(configs[i]["generated_tokens"].as_u64()));
    for i in order {
        canvas.line(&all[i].iter().map(|p| (x(p.0), y(p.1))).collect::<Vec<_>>(), 2.5, color(i));
    }
    lower + 44.0
}

/// Medians of the parts of an answer, each with the position in its middle; what is not a time is left out.
fn parts(m: &Value) -> Vec<(f64, f64)> {
    let ms = list(&m["step_ms_by_position"]);
    let of = |field: &str| number(m, field).unwrap_or(0.0);
    let steps = (of("generated_tokens") - 1.0).max(0.0) / ms.len().max(1) as f64;
    let at = |i: usize| of("prompt_tokens") + (i as f64 + 0.5) * steps;
    let all = ms.iter().enumerate().filter_map(|(i, ms)| Some((at(i), ms.as_f64()?)));
    all.filter(|(_, ms)| (0.0..1e9).contains(ms)).collect()
}

/// At most eight round values of a range, written with as many digits as tell them apart.
fn ticks(first: f64, last: f64) -> Vec<(f64, String)> {
    let about = (last - first) / 6.0;
    if !about.is_finite() || about <= 0.0 {
        return Vec::new();
    }
    let power = 10f64.powf(about.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| *s >= about).unwrap_or(about);
    let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let values = (0..8).map(|i| ((first / step).ceil() + f64::from(i)) * step).take_while(|v| *v <= last);
    values.map(|v| (v, format!("{v:.decimals$}"))).collect()
}

/// Three digits, or all before the point.
fn digits(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => "–".into(),
        a if a >= 1e7 => format!("{x:.1e}"),
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}
