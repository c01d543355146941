//! How much of what the machine could do at most each configuration reaches.

use plotters::{coord::types::RangedCoordf64, prelude::*};

use super::{
    page::{INNER, heading},
    raster::Font,
    style::{Area, GRID, INK, Letters, PAPER, PlotResult, QUIET, SERIES, key, letters, number, plain, px, write},
};
use crate::bench::report::{Measured, Report};

/// The widest bar, in pixels.
const BAR: f64 = 52.0;
/// Between the two bars of a configuration.
const BETWEEN: f64 = 6.0;
/// Configurations that one picture holds.
pub const MOST: usize = 12;
/// Where the plot begins, right of its axis.
const LEFT: f64 = 58.0;

/// A larger share is no measurement: the limit is wrong.
const SENSIBLE: f64 = 100.0;

type Plane = Cartesian2d<RangedCoordf64, RangedCoordf64>;

/// A bar and what is written over it.
struct Bar {
    share: Option<f64>,
    speed: f64,
    color: RGBColor,
}

fn bars(m: &Measured) -> [Bar; 2] {
    // No steps, no share: 0 tok/s is not 0 % of something.
    let share = |share: Option<f64>, speed: f64| share.filter(|s| (0.0..=SENSIBLE).contains(s) && speed > 0.0);
    let (decode, prompt) = (m.decode_throughput_median_tps, m.prompt_throughput_median_tps);
    [
        Bar { share: share(Some(m.decode_share()), decode), speed: decode, color: SERIES[0] },
        Bar { share: share(m.prompt_share(), prompt), speed: prompt, color: SERIES[4] },
    ]
}

pub fn draw<DB: DrawingBackend>(area: &Area<DB>, report: &Report) -> PlotResult<DB> {
    heading(area, "How much of the machine is used")?;
    let x = key(area, "decode, of the memory limit", (0.0, 36.0), SERIES[0])?;
    let x = key(area, "prompt, of the arithmetic limit", (x, 36.0), SERIES[4])?;
    write(area, "over each bar: share of the limit, and tokens per second", (x, 36.0), letters(12.0, QUIET))?;
    let configs = &report.configs[..report.configs.len().min(MOST)];
    let shares = configs.iter().flat_map(bars).filter_map(|bar| bar.share);
    let top = shares.fold(1.0, f64::max) * 118.0;
    let width = INNER - LEFT;
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(54.0))
        .set_label_area_size(LabelAreaPosition::Left, px(LEFT))
        .set_label_area_size(LabelAreaPosition::Bottom, px(44.0))
        .build_cartesian_2d(0.0..width, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .axis_style(GRID.stroke_width(0))
        .y_labels(6)
        .bold_line_style(GRID.stroke_width(2))
        .light_line_style(GRID.stroke_width(0))
        .y_max_light_lines(1)
        .y_label_style(letters(12.0, QUIET))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .y_desc("% of the limit")
        .axis_desc_style(letters(12.0, QUIET))
        .draw()?;
    // The limit itself, under the bars and their numbers.
    chart.draw_series(LineSeries::new([(0.0, 100.0), (width, 100.0)], INK.stroke_width(2)))?;
    let step = width / configs.len().max(1) as f64;
    let bar = (step * 0.36).min(BAR);
    for (i, measured) in configs.iter().enumerate() {
        let middle = step * (i as f64 + 0.5);
        for (drawn, side) in bars(measured).iter().zip([-1.0, 0.0]) {
            let left = middle + side * (bar + BETWEEN) + BETWEEN / 2.0;
            draw_bar(chart.plotting_area(), drawn, left..left + bar)?;
        }
        let name = plain(&measured.config.name);
        let size = format!("{} + {}", measured.config.n_prompt, measured.generated_tokens);
        let below = |text: String, y: f64, style| EmptyElement::at((middle, 0.0)) + Text::new(text, (0, px(y)), style);
        chart.plotting_area().draw(&below(name, 15.0, letters(13.0, INK).bold().centred()))?;
        chart.plotting_area().draw(&below(size, 32.0, letters(11.0, QUIET).centred()))?;
    }
    Ok(())
}

/// A bar between two places, in pixels, and its two lines of numbers.
fn draw_bar<DB: DrawingBackend>(area: &DrawingArea<DB, Plane>, bar: &Bar, at: std::ops::Range<f64>) -> PlotResult<DB> {
    let middle = (at.start + at.end) / 2.0;
    let height = bar.share.map_or(0.0, |share| 100.0 * share);
    area.draw(&Rectangle::new([(at.start, 0.0), (at.end, height)], bar.color.filled()))?;
    let share = bar.share.map_or("–".to_owned(), |share| format!("{:.0} %", 100.0 * share));
    let speed = format!("{} t/s", number(bar.speed));
    // Lines of the grid end beside the numbers.
    let half = Font::regular().width(&speed, 11.0).max(Font::bold().width(&share, 13.0)) / 2.0 + 1.0;
    let ground = [(px(-half), px(-32.0)), (px(half), 0)];
    area.draw(&(EmptyElement::at((middle, height)) + Rectangle::new(ground, PAPER.filled())))?;
    let over = |text: String, y: f64, style| EmptyElement::at((middle, height)) + Text::new(text, (0, px(-y)), style);
    area.draw(&over(share, 24.0, letters(13.0, INK).bold().centred()))?;
    area.draw(&over(speed, 9.0, letters(11.0, QUIET).centred()))
}
