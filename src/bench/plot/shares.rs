//! How much of what the machine could do at most each configuration reaches.

use super::{
    axes::Axes,
    canvas::{Anchor, Canvas, Letters},
    font::Font,
    style::{Color, INK, INNER, MAX_CONFIGS, PAPER, QUIET, number, series},
};
use crate::bench::report::{Measured, Report};

pub const HEIGHT: f64 = 340.0;
/// The widest bar, and the space between the two of a configuration, in pixels.
const BAR: f64 = 52.0;
const BETWEEN: f64 = 6.0;
/// A larger share is not a measurement: the limit is wrong.
const SENSIBLE: f64 = 100.0;

/// A bar and what is written over it.
struct Bar {
    share: Option<f64>,
    speed: f64,
    color: Color,
}

fn bars(m: &Measured) -> [Bar; 2] {
    // No steps, no share: 0 tok/s is not 0 % of something.
    let share = |share: Option<f64>, speed: f64| share.filter(|s| (0.0..=SENSIBLE).contains(s) && speed > 0.0);
    let (decode, prompt) = (m.decode_throughput_median_tps, m.prompt_throughput_median_tps);
    [
        Bar { share: share(Some(m.decode_share()), decode), speed: decode, color: series(0) },
        Bar { share: share(m.prompt_share(), prompt), speed: prompt, color: series(4) },
    ]
}

pub fn draw(canvas: &mut Canvas, report: &Report) {
    canvas.heading("How much of the machine is used");
    let x = canvas.key("decode, of the memory limit", (0.0, 36.0), series(0));
    let x = canvas.key("prompt, of the arithmetic limit", (x, 36.0), series(4));
    canvas.note("over each bar: share of the limit, and tokens per second", (x, 36.0));
    let configs = &report.configs[..report.configs.len().min(MAX_CONFIGS)];
    let shares = configs.iter().flat_map(bars).filter_map(|bar| bar.share);
    let y_max = shares.fold(1.0, f64::max) * 118.0;
    let axes = Axes { left: 58.0, right: INNER, top: 54.0, bottom: HEIGHT - 44.0, x: 0.0..1.0, y_max };
    axes.draw_y(canvas, "% of the limit");
    // The limit itself, under the bars and their numbers.
    canvas.line(&[(axes.left, axes.y(100.0)), (axes.right, axes.y(100.0))], 1.0, INK);
    let step = (axes.right - axes.left) / configs.len().max(1) as f64;
    let bar = (step * 0.36).min(BAR);
    for (i, measured) in configs.iter().enumerate() {
        let middle = axes.left + step * (i as f64 + 0.5);
        for (drawn, side) in bars(measured).iter().zip([-1.0, 0.0]) {
            let left = middle + side * (bar + BETWEEN) + BETWEEN / 2.0;
            draw_bar(canvas, &axes, drawn, left..left + bar);
        }
        let size = format!("{} + {}", measured.config.n_prompt, measured.generated_tokens);
        let below = |y: f64| (middle, axes.bottom + y);
        canvas.text(&measured.config.name, below(15.0), Letters::new(13.0, INK).bold().at(Anchor::Middle));
        canvas.text(&size, below(32.0), Letters::new(11.0, QUIET).at(Anchor::Middle));
    }
}

/// A bar between two places, and its two lines of numbers.
fn draw_bar(canvas: &mut Canvas, axes: &Axes, bar: &Bar, at: std::ops::Range<f64>) {
    let (middle, height) = ((at.start + at.end) / 2.0, axes.y(bar.share.map_or(0.0, |share| 100.0 * share)));
    canvas.rect((at.start, height), (at.end, axes.bottom), bar.color);
    let share = bar.share.map_or("–".to_owned(), |share| format!("{:.0} %", 100.0 * share));
    let speed = format!("{} t/s", number(bar.speed));
    // Lines of the grid end beside the numbers.
    let half = Font::new(false).width(&speed, 11.0).max(Font::new(true).width(&share, 13.0)) / 2.0 + 1.0;
    canvas.rect((middle - half, height - 32.0), (middle + half, height), PAPER);
    canvas.text(&share, (middle, height - 24.0), Letters::new(13.0, INK).bold().at(Anchor::Middle));
    canvas.text(&speed, (middle, height - 9.0), Letters::new(11.0, QUIET).at(Anchor::Middle));
}
