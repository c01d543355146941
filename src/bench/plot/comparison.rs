//! Speeds beside each other: of several reports, or of several engines.

use plotters::prelude::*;

use super::{
    page::{INNER, heading},
    recorded::{Peers, Speed},
    shares::MOST,
    style::{Area, GRID, INK, Letters, PlotResult, QUIET, SERIES, key, letters, number, px, write},
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
        let same = |a: &Measured, b: &Measured| {
            (&a.config.name, a.config.n_prompt, a.config.n_gen) == (&b.config.name, b.config.n_prompt, b.config.n_gen)
        };
        let mut rows: Vec<&Measured> = Vec::new();
        for measured in reports.iter().flat_map(|r| &r.configs) {
            if rows.len() < MOST && !rows.iter().any(|row| same(row, measured)) {
                rows.push(measured);
            }
        }
        let speed =
            |m: &Measured| Speed { prompt: m.prompt_throughput_median_tps, decode: m.decode_throughput_median_tps };
        let each = |row: &Measured| {
            let speeds = reports.iter().map(|r| r.configs.iter().find(|m| same(m, row)).map(speed));
            let sizes = format!("{} + {}", row.config.n_prompt, row.config.n_gen);
            ([row.config.name.clone(), sizes], speeds.collect())
        };
        let series = reports.iter().map(|r| {
            let (name, m) = (r.about.name(), &r.about.machine);
            format!("{name} on {}, qrun {} ({}), {}", m.name(), m.qrun, m.commit, day(&m.timestamp))
        });
        Self {
            title: "Beside other reports".into(),
            series: series.collect(),
            groups: rows.into_iter().map(each).collect(),
        }
    }

    pub fn of_peers(peers: &Peers) -> Self {
        Self { title: peers.title(), series: peers.engines(), groups: peers.rows() }
    }

    /// Keys are sentences where they name reports; engines' names share a line.
    fn key_lines(&self) -> usize {
        if self.on_one_line() { 1 } else { self.series.len() }
    }

    fn on_one_line(&self) -> bool {
        self.series.iter().map(|name| name.chars().count() + 6).sum::<usize>() < 110
    }

    fn top(&self) -> f64 {
        36.0 + KEY * self.key_lines() as f64 + 22.0
    }

    fn group(&self) -> f64 {
        (BAR * self.series.len() as f64).max(34.0) + APART
    }

    /// In pixels.
    pub fn height(&self) -> f64 {
        self.top() + self.group() * self.groups.len() as f64
    }

    pub fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> PlotResult<DB> {
        heading(area, &self.title)?;
        let mut x = 0.0;
        for (i, name) in self.series.iter().enumerate() {
            let y = if self.on_one_line() { 36.0 } else { 36.0 + KEY * i as f64 };
            let next = key(area, name, (x, y), color(i))?;
            x = if self.on_one_line() { next } else { 0.0 };
        }
        let y = self.top() - 12.0;
        for (i, what) in
            ["decode, tokens per second (× beside the first)", "prompt, tokens per second (× beside the first)"]
                .into_iter()
                .enumerate()
        {
            write(area, what, (NAMES + COLUMN * i as f64, y), letters(12.0, QUIET))?;
        }
        for (i, ([name, sizes], _)) in self.groups.iter().enumerate() {
            let middle = self.top() + self.group() * i as f64 + (self.group() - APART) / 2.0;
            write(area, name, (0.0, middle - 8.0), letters(13.0, INK).bold())?;
            write(area, sizes, (0.0, middle + 9.0), letters(11.0, QUIET))?;
        }
        self.column(area, NAMES, |speed| speed.decode)?;
        self.column(area, NAMES + COLUMN, |speed| speed.prompt)
    }

    /// The bars of one kind of speed; the first series is what the others are measured by.
    fn column<DB: DrawingBackend>(&self, area: &Area<DB>, left: f64, of: impl Fn(&Speed) -> f64) -> PlotResult<DB> {
        let speed = |speed: &Option<Speed>| speed.as_ref().map(&of).filter(|s| s.is_finite() && *s > 0.0);
        let all = self.groups.iter().flat_map(|(_, speeds)| speeds).filter_map(speed);
        let longest = all.fold(f64::MIN_POSITIVE, f64::max);
        for (i, (_, speeds)) in self.groups.iter().enumerate() {
            let top = self.top() + self.group() * i as f64;
            let first = speeds.first().and_then(speed);
            for (j, found) in speeds.iter().map(speed).enumerate() {
                let y = top + BAR * j as f64;
                let right = left + (COLUMN - NUMBERS) * found.unwrap_or(0.0) / longest;
                let corners = [(px(left), px(y)), (px(right), px(y + BAR - 3.0))];
                area.draw(&Rectangle::new(corners, color(j).filled()))?;
                let middle = y + (BAR - 3.0) / 2.0;
                let text = found.map_or("–".into(), number);
                write(area, &text, (right + 6.0, middle), letters(12.0, INK).bold())?;
                if let (true, Some(found), Some(first)) = (j > 0, found, first) {
                    let ratio = format!("×{:.2}", found / first);
                    write(area, &ratio, (right + 52.0, middle), letters(12.0, QUIET))?;
                }
            }
            let axis = [(px(left), px(top - 4.0)), (px(left), px(top + self.group() - APART + 1.0))];
            area.draw(&PathElement::new(axis, GRID.stroke_width(2)))?;
        }
        Ok(())
    }
}

fn color(i: usize) -> RGBColor {
    SERIES[i % SERIES.len()]
}

fn day(timestamp: &str) -> &str {
    timestamp.split('T').next().unwrap_or_default()
}
