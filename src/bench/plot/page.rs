//! The sheet: what was measured where, the panels, and what it was measured with.

use plotters::prelude::*;

use super::{
    Subject,
    comparison::Comparison,
    latency, shares,
    style::{Area, INK, Letters, PAPER, PlotResult, QUIET, letters, lines, plain, px, write},
};
use crate::bench::report::Report;

/// Width of the sheet and of its margins, in pixels.
const WIDTH: f64 = 1080.0;
const MARGIN: f64 = 32.0;
/// What panels have to draw in.
pub const INNER: f64 = WIDTH - 2.0 * MARGIN;
const TITLE: f64 = 34.0;
const LINE: f64 = 19.0;
const FOOTER: f64 = 44.0;
/// From one panel to the next.
const GAP: f64 = 26.0;

/// One part of the sheet.
enum Panel<'a> {
    Shares(&'a Report),
    Latency(&'a Report),
    Comparison(Comparison),
}

pub struct Page<'a> {
    title: String,
    /// What every number depends on.
    about: Vec<String>,
    panels: Vec<Panel<'a>>,
    footer: String,
}

impl<'a> Page<'a> {
    pub fn new(subject: &'a Subject) -> Self {
        let mut panels = Vec::new();
        let (mut title, mut about, mut footer) = ("qrun bench".to_owned(), String::new(), String::new());
        if let Some(report) = subject.reports.first() {
            title = report.about.name();
            about = described(report);
            let m = &report.about.machine;
            footer = format!("qrun {} · commit {} · {} · {}", m.qrun, m.commit, m.os, m.timestamp);
            if report.configs.is_empty() {
                about += " Nothing was measured.";
            } else {
                panels.extend([Panel::Shares(report), Panel::Latency(report)]);
            }
            let comparison = Comparison::of_reports(&subject.reports);
            panels.extend((subject.reports.len() > 1).then_some(Panel::Comparison(comparison)));
        } else if let Some(peers) = subject.peers.first() {
            about = peers.described();
            footer = peers.footer();
        }
        panels.extend(subject.peers.iter().map(|peers| Panel::Comparison(Comparison::of_peers(peers))));
        Self { title, about: lines(&plain(&about), 13.0, INNER), panels, footer }
    }

    fn header(&self) -> f64 {
        MARGIN + TITLE + LINE * self.about.len() as f64
    }

    /// Width and height in dots.
    pub fn size(&self) -> (u32, u32) {
        let panels: f64 = self.panels.iter().map(|panel| GAP + panel.height()).sum();
        let height = self.header() + panels + FOOTER;
        (px(WIDTH) as u32, px(height.max(160.0)) as u32)
    }

    pub fn draw<DB: DrawingBackend>(&self, backend: DB) -> PlotResult<DB> {
        let sheet = backend.into_drawing_area();
        sheet.fill(&PAPER)?;
        write(&sheet, &self.title, (MARGIN, MARGIN + 8.0), letters(24.0, INK).bold())?;
        for (i, line) in self.about.iter().enumerate() {
            let y = MARGIN + TITLE + LINE * (i as f64 + 0.5);
            write(&sheet, line, (MARGIN, y), letters(13.0, QUIET))?;
        }
        let mut rest = sheet.split_vertically(px(self.header())).1;
        for panel in &self.panels {
            let (area, below) = rest.split_vertically(px(GAP + panel.height()));
            panel.draw(&area.margin(px(GAP), 0, px(MARGIN), px(MARGIN)))?;
            rest = below;
        }
        let bottom = f64::from(self.size().1) / f64::from(super::style::DOTS) - 20.0;
        write(&sheet, &self.footer, (MARGIN, bottom), letters(11.0, QUIET))?;
        let how = letters(11.0, QUIET).to_the_left();
        write(&sheet, "how to read this: benches/README.md", (WIDTH - MARGIN, bottom), how)?;
        sheet.present()
    }
}

impl Panel<'_> {
    /// In pixels.
    fn height(&self) -> f64 {
        match self {
            Self::Shares(_) => 340.0,
            Self::Latency(report) => latency::height(report),
            Self::Comparison(comparison) => comparison.height(),
        }
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> PlotResult<DB> {
        match self {
            Self::Shares(report) => shares::draw(area, report),
            Self::Latency(report) => latency::draw(area, report),
            Self::Comparison(comparison) => comparison.draw(area),
        }
    }
}

/// The heading of a panel.
pub fn heading<DB: DrawingBackend>(area: &Area<DB>, text: &str) -> PlotResult<DB> {
    write(area, text, (0.0, 9.0), letters(16.0, INK).bold())
}

fn described(r: &Report) -> String {
    let about = &r.about;
    format!(
        "{}. Computed with {}; KV cache {}/{}. {:.0} MB of weights per token; this machine reads {:.1} GB/s. Timed runs: \
         {} (medians); warm-ups: {}.",
        about.machine.name(),
        about.arithmetic,
        about.kv_types[0],
        about.kv_types[1],
        about.weight_bytes_per_token as f64 / 1e6,
        about.limits.read_gb_per_s,
        r.trials,
        r.warmup_runs
    )
}
