//! How long a step takes, over the position of its token.

use super::{
    axes::Axes,
    canvas::{Anchor, Canvas, Letters},
    style::{INK, INNER, MAX_CONFIGS, QUIET, number, series},
};
use crate::bench::report::{Measured, Report};

/// The table at the right, in pixels.
const TABLE: f64 = 250.0;
const ROW: f64 = 22.0;
const TOP: f64 = 54.0;

pub fn height(report: &Report) -> f64 {
    340.0f64.max(TOP + ROW * (report.configs.len().min(MAX_CONFIGS) + 2) as f64)
}

/// Medians of the parts of an answer, each with the position in its middle; what is not a time is left out.
fn parts(m: &Measured) -> Vec<(f64, f64)> {
    let steps = m.generated_tokens.saturating_sub(1) as f64;
    let n = m.step_ms_by_position.len().max(1) as f64;
    let at = |i: usize| m.config.n_prompt as f64 + (i as f64 + 0.5) * steps / n;
    let all = m.step_ms_by_position.iter().enumerate().map(|(i, &ms)| (at(i), ms));
    all.filter(|(_, ms)| (0.0..1e9).contains(ms)).collect()
}

pub fn draw(canvas: &mut Canvas, report: &Report) {
    canvas.heading("Time of a step over the position of its token");
    canvas.note("medians over the parts of each answer and over the trials", (0.0, 36.0));
    let configs = &report.configs[..report.configs.len().min(MAX_CONFIGS)];
    let all: Vec<_> = configs.iter().map(parts).collect();
    let points = || all.iter().flatten();
    let first = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let last = points().map(|p| p.0).fold(0.0, f64::max);
    let first = if first < last { first } else { 0.0 };
    let most = points().map(|p| p.1).fold(0.0, f64::max);
    let axes = Axes {
        left: 58.0,
        right: INNER - TABLE - 10.0,
        top: TOP,
        bottom: height(report) - 40.0,
        x: first..last.max(first + 1.0),
        y_max: if most > 0.0 { 1.3 * most } else { 1.0 },
    };
    axes.draw_y(canvas, "ms per step");
    axes.draw_x(canvas, "position in the context, tokens");
    // The longest lines below, so that the short ones stay visible.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(configs[i].generated_tokens));
    for i in order {
        let line: Vec<_> = all[i].iter().map(|&(x, y)| (axes.x(x), axes.y(y))).collect();
        canvas.line(&line, 2.5, series(i));
    }
    draw_table(canvas, configs);
}

/// Names and percentiles, in the colours of the lines.
fn draw_table(canvas: &mut Canvas, configs: &[Measured]) {
    let left = INNER - TABLE;
    let columns = [160.0, 205.0, 250.0].map(|x| left + x);
    canvas.note("ms", (left + 42.0, TOP + 10.0));
    for (name, x) in ["P50", "P95", "P99"].into_iter().zip(columns) {
        canvas.text(name, (x, TOP + 10.0), Letters::new(12.0, QUIET).at(Anchor::End));
    }
    for (i, m) in configs.iter().enumerate() {
        let y = TOP + 10.0 + ROW * (i + 1) as f64;
        canvas.line(&[(left + 16.0, y), (left + 34.0, y)], 3.0, series(i));
        canvas.text(&m.config.name, (left + 42.0, y), Letters::new(12.0, INK));
        let values = [m.per_step_latency_p50_ms, m.per_step_latency_p95_ms, m.per_step_latency_p99_ms];
        for (value, x) in values.into_iter().zip(columns) {
            let value = if m.per_step_latency_n == 0 { "–".into() } else { number(value) };
            canvas.text(&value, (x, y), Letters::new(12.0, INK).at(Anchor::End));
        }
    }
}
