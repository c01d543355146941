//! Speeds beside each other: of several reports, or of several engines.

use super::{
    canvas::{Canvas, Letters},
    recorded::{Peers, Speed},
    style::{GRID, INK, INNER, MAX_CONFIGS, QUIET, number, series},
};
use crate::bench::report::{Measured, Report};

/// In pixels: a bar with the space under it, the space between groups, the names at the left, a column's numbers.
const BAR: f64 = 17.0;
const APART: f64 = 14.0;
const NAMES: f64 = 124.0;
const NUMBERS: f64 = 112.0;
const KEY: f64 = 20.0;
const COLUMN: f64 = (INNER - NAMES) / 2.0;

/// Named series of speeds in named groups.
pub struct Comparison {
    title: String,
    series: Vec<String>,
    groups: Vec<([String; 2], Vec<Option<Speed>>)>,
}

impl Comparison {
    /// Configurations with the same name and sizes stand together.
    pub fn of_reports(reports: &[Report]) -> Self {
        let key = |m: &Measured| (m.config.name.clone(), m.config.n_prompt, m.config.n_gen);
        let mut rows: Vec<&Measured> = Vec::new();
        for measured in reports.iter().flat_map(|r| &r.configs) {
            if rows.len() < MAX_CONFIGS && rows.iter().all(|row| key(row) != key(measured)) {
                rows.push(measured);
            }
        }
        let speed =
            |m: &Measured| Speed { prompt: m.prompt_throughput_median_tps, decode: m.decode_throughput_median_tps };
        let group = |row: &Measured| {
            let same = |r: &Report| r.configs.iter().find(|m| key(m) == key(row)).map(speed);
            let sizes = format!("{} + {}", row.config.n_prompt, row.config.n_gen);
            ([row.config.name.clone(), sizes], reports.iter().map(same).collect())
        };
        let name = |r: &Report| {
            let m = &r.info.machine;
            let day = m.timestamp.split('T').next().unwrap_or_default();
            format!("{} on {}, qrun {} ({}), {day}", r.info.name(), m.name(), m.qrun, m.commit)
        };
        Self {
            title: "Beside other reports".into(),
            series: reports.iter().map(name).collect(),
            groups: rows.into_iter().map(group).collect(),
        }
    }

    pub fn of_peers(peers: &Peers) -> Self {
        Self { title: peers.title(), series: peers.engines(), groups: peers.rows() }
    }

    /// Keys are sentences where they name reports; engines' names share a line.
    fn on_one_line(&self) -> bool {
        self.series.iter().map(|name| name.chars().count() + 6).sum::<usize>() < 110
    }

    fn top(&self) -> f64 {
        58.0 + KEY * if self.on_one_line() { 1.0 } else { self.series.len() as f64 }
    }

    fn group(&self) -> f64 {
        (BAR * self.series.len() as f64).max(34.0) + APART
    }

    pub fn height(&self) -> f64 {
        self.top() + self.group() * self.groups.len() as f64
    }

    pub fn draw(&self, canvas: &mut Canvas) {
        canvas.heading(&self.title);
        let mut x = 0.0;
        for (i, name) in self.series.iter().enumerate() {
            let y = if self.on_one_line() { 36.0 } else { 36.0 + KEY * i as f64 };
            let next = canvas.key(name, (x, y), series(i));
            x = if self.on_one_line() { next } else { 0.0 };
        }
        for (i, ([name, sizes], _)) in self.groups.iter().enumerate() {
            let middle = self.top() + self.group() * i as f64 + (self.group() - APART) / 2.0;
            canvas.text(name, (0.0, middle - 8.0), Letters::new(13.0, INK).bold());
            canvas.text(sizes, (0.0, middle + 9.0), Letters::new(11.0, QUIET));
        }
        self.column(canvas, (NAMES, "decode"), |speed| speed.decode);
        self.column(canvas, (NAMES + COLUMN, "prompt"), |speed| speed.prompt);
    }

    /// The bars of one kind of speed; the first series is what the others are measured by.
    fn column(&self, canvas: &mut Canvas, (left, what): (f64, &str), of: impl Fn(&Speed) -> f64) {
        canvas.note(&format!("{what}, tokens per second (× beside the first)"), (left, self.top() - 12.0));
        let speed = |speed: &Option<Speed>| speed.as_ref().map(&of).filter(|s| s.is_finite() && *s > 0.0);
        let all = self.groups.iter().flat_map(|(_, speeds)| speeds).filter_map(speed);
        let longest = all.fold(f64::MIN_POSITIVE, f64::max);
        for (i, (_, speeds)) in self.groups.iter().enumerate() {
            let top = self.top() + self.group() * i as f64;
            let first = speeds.first().and_then(speed);
            for (j, found) in speeds.iter().map(speed).enumerate() {
                let y = top + BAR * j as f64;
                let right = left + (COLUMN - NUMBERS) * found.unwrap_or(0.0) / longest;
                canvas.rect((left, y), (right, y + BAR - 3.0), series(j));
                let middle = y + (BAR - 3.0) / 2.0;
                let text = found.map_or("–".into(), number);
                canvas.text(&text, (right + 6.0, middle), Letters::new(12.0, INK).bold());
                if let (true, Some(found), Some(first)) = (j > 0, found, first) {
                    canvas.note(&format!("×{:.2}", found / first), (right + 52.0, middle));
                }
            }
            canvas.line(&[(left, top - 4.0), (left, top + self.group() - APART + 1.0)], 1.0, GRID);
        }
    }
}
