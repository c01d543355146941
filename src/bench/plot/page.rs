//! The sheet: what was measured where, the panels, and what it was measured with.

use super::{
    Series,
    canvas::{Anchor, Canvas, Letters, lines, plain},
    comparison::Comparison,
    latency, shares,
    style::{INK, INNER, MARGIN, QUIET, WIDTH},
};
use crate::bench::report::Report;

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

impl Panel<'_> {
    /// In pixels.
    fn height(&self) -> f64 {
        match self {
            Self::Shares(_) => shares::HEIGHT,
            Self::Latency(report) => latency::height(report),
            Self::Comparison(comparison) => comparison.height(),
        }
    }

    fn draw(&self, canvas: &mut Canvas) {
        match self {
            Self::Shares(report) => shares::draw(canvas, report),
            Self::Latency(report) => latency::draw(canvas, report),
            Self::Comparison(comparison) => comparison.draw(canvas),
        }
    }
}

/// Draws all that there is.
pub fn draw(series: &Series) -> Canvas {
    let mut panels = Vec::new();
    let (mut title, mut about, mut footer) = ("qrun bench".to_owned(), String::new(), String::new());
    if let Some(report) = series.reports.first() {
        title = report.info.name();
        about = described(report);
        let m = &report.info.machine;
        footer = format!("qrun {} · commit {} · {} · {}", m.qrun, m.commit, m.os, m.timestamp);
        if report.configs.is_empty() {
            about += " Nothing was measured.";
        } else {
            panels.extend([Panel::Shares(report), Panel::Latency(report)]);
        }
        let comparison = Comparison::of_reports(&series.reports);
        panels.extend((series.reports.len() > 1).then_some(Panel::Comparison(comparison)));
    } else if let Some(peers) = series.peers.first() {
        about = peers.described();
        footer = peers.footer();
    }
    panels.extend(series.peers.iter().map(|peers| Panel::Comparison(Comparison::of_peers(peers))));
    let about = lines(&plain(&about), 13.0, INNER);
    let header = MARGIN + TITLE + LINE * about.len() as f64;
    let height = header + panels.iter().map(|panel| GAP + panel.height()).sum::<f64>() + FOOTER;
    let mut canvas = Canvas::new(WIDTH, height.max(160.0));
    canvas.text(&title, (MARGIN, MARGIN + 8.0), Letters::new(24.0, INK).bold());
    for (i, line) in about.iter().enumerate() {
        let y = MARGIN + TITLE + LINE * (i as f64 + 0.5);
        canvas.text(line, (MARGIN, y), Letters::new(13.0, QUIET));
    }
    canvas.origin = (MARGIN, header);
    for panel in &panels {
        canvas.origin.1 += GAP;
        panel.draw(&mut canvas);
        canvas.origin.1 += panel.height();
    }
    canvas.origin = (0.0, 0.0);
    let (bottom, small) = (height.max(160.0) - 20.0, Letters::new(11.0, QUIET));
    canvas.text(&footer, (MARGIN, bottom), small);
    canvas.text("how to read this: benches/README.md", (WIDTH - MARGIN, bottom), small.at(Anchor::End));
    canvas
}

fn described(r: &Report) -> String {
    let info = &r.info;
    format!(
        "{}. Computed with {}; KV cache {}. {:.0} MB of weights per token; this machine reads {:.1} GB/s. Timed runs: \
         {} (medians); warm-ups: {}.",
        info.machine.name(),
        info.arithmetic,
        info.kv_types.join("/"),
        info.weight_bytes_per_token as f64 / 1e6,
        info.limits.read_gb_per_s,
        r.trials,
        r.warmup_runs
    )
}
