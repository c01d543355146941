//! How long each step took, over the position of its token.

use plotters::prelude::*;

use super::{
    page::{INNER, heading},
    shares::MOST,
    style::{Area, GRID, INK, Letters, PlotResult, QUIET, SERIES, letters, lines, number, plain, px, write},
};
use crate::bench::{
    report::{Measured, Report},
    statistics::median,
};

/// The table at the right, in pixels.
const TABLE: f64 = 250.0;
const ROW: f64 = 22.0;
const TOP: f64 = 54.0;
/// Of a line of steps, so many stand for one point of its median.
const PARTS: usize = 32;
/// The highest median under the upper end of the axis. Who disturbs the machine is not to flatten what it does.
const ROOM: f64 = 1.6;

/// In pixels.
pub fn height(report: &Report) -> f64 {
    340.0f64.max(TOP + ROW * (report.configs.len().min(MOST) + 2) as f64)
}

/// Steps that are numbers, each with the position that it computed.
fn steps(m: &Measured) -> Vec<(f64, f64)> {
    let at = |(i, &ms): (usize, &f64)| ((m.config.n_prompt + i) as f64, ms);
    m.step_ms.iter().enumerate().map(at).filter(|(_, ms)| (0.0..1e9).contains(ms)).collect()
}

/// Medians of neighbours: what a step takes when nothing disturbs.
fn smooth(steps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let reach = (steps.len() / PARTS / 2).max(4);
    let around = |i: usize| &steps[i.saturating_sub(reach)..steps.len().min(i + reach + 1)];
    let ms = |i: usize| median(&around(i).iter().map(|s| s.1).collect::<Vec<_>>());
    steps.iter().enumerate().map(|(i, step)| (step.0, ms(i))).collect()
}

pub fn draw<DB: DrawingBackend>(area: &Area<DB>, report: &Report) -> PlotResult<DB> {
    heading(area, "Time of a step over the position of its token")?;
    let all: Vec<(&Measured, Vec<(f64, f64)>)> = report.configs.iter().take(MOST).map(|m| (m, steps(m))).collect();
    let smoothed: Vec<Vec<(f64, f64)>> = all.iter().map(|(_, steps)| smooth(steps)).collect();
    let top = smoothed.iter().flatten().map(|s| s.1).fold(0.0, f64::max) * ROOM;
    let top = if top > 0.0 { top } else { 1.0 };
    let first = all.iter().filter_map(|(_, s)| s.first()).map(|s| s.0).fold(f64::INFINITY, f64::min);
    let last = all.iter().filter_map(|(_, s)| s.last()).map(|s| s.0).fold(0.0, f64::max);
    let first = if first < last { first } else { 0.0 };
    let (plot, table) = area.split_horizontally(px(INNER - TABLE));
    let cut = all.iter().flat_map(|(_, s)| s).filter(|s| s.1 > top).count();
    let mut note = "thick: median of neighbouring steps; thin: each step, median of the trials".to_owned();
    if cut > 0 {
        note += &format!("; {cut} slower ones end at the top");
    }
    for (i, line) in lines(&note, 12.0, INNER - TABLE).iter().take(1).enumerate() {
        write(area, line, (0.0, 36.0 + 16.0 * i as f64), letters(12.0, QUIET))?;
    }
    let mut chart = ChartBuilder::on(&plot)
        .margin_top(px(TOP))
        .margin_right(px(10.0))
        .set_label_area_size(LabelAreaPosition::Left, px(58.0))
        .set_label_area_size(LabelAreaPosition::Bottom, px(40.0))
        .build_cartesian_2d(first..last.max(first + 1.0), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .axis_style(GRID.stroke_width(2))
        .bold_line_style(GRID.stroke_width(2))
        .light_line_style(GRID.stroke_width(0))
        .max_light_lines(1)
        .x_labels(8)
        .y_labels(6)
        .label_style(letters(12.0, QUIET))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| if top < 8.0 { format!("{y:.1}") } else { format!("{y:.0}") })
        .x_desc("position in the context, tokens")
        .y_desc("ms per step")
        .axis_desc_style(letters(12.0, QUIET))
        .draw()?;
    for (i, (_, steps)) in all.iter().enumerate() {
        let each = steps.iter().map(|s| (s.0, s.1.min(top)));
        chart.draw_series(LineSeries::new(each, color(i).mix(0.3).stroke_width(2)))?;
    }
    // The longest lines below, so that the short ones stay visible.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(all[i].1.len()));
    for i in order {
        let line = smoothed[i].iter().map(|s| (s.0, s.1.min(top)));
        chart.draw_series(LineSeries::new(line, color(i).stroke_width(5)))?;
    }
    draw_table(&table, &all.iter().map(|(m, _)| *m).collect::<Vec<_>>())
}

/// Names and percentiles, in the colours of the lines.
fn draw_table<DB: DrawingBackend>(area: &Area<DB>, configs: &[&Measured]) -> PlotResult<DB> {
    let columns = [160.0, 205.0, 250.0];
    for (name, x) in ["P50", "P95", "P99"].into_iter().zip(columns) {
        write(area, name, (x, TOP + 10.0), letters(12.0, QUIET).to_the_left())?;
    }
    write(area, "ms", (42.0, TOP + 10.0), letters(12.0, QUIET))?;
    for (i, m) in configs.iter().enumerate() {
        let y = TOP + 10.0 + ROW * (i + 1) as f64;
        let line = [(px(16.0), px(y)), (px(34.0), px(y))];
        area.draw(&PathElement::new(line, color(i).stroke_width(6)))?;
        write(area, &plain(&m.config.name), (42.0, y), letters(12.0, INK))?;
        let values = [m.per_step_latency_p50_ms, m.per_step_latency_p95_ms, m.per_step_latency_p99_ms];
        for (value, x) in values.into_iter().zip(columns) {
            let value = if m.step_ms.is_empty() { "–".into() } else { number(value) };
            write(area, &value, (x, y), letters(12.0, INK).to_the_left())?;
        }
    }
    Ok(())
}

fn color(i: usize) -> RGBColor {
    SERIES[i % SERIES.len()]
}
