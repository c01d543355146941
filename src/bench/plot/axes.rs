//! Axes: where a value lies in a frame, and lines and numbers at round values.

use super::{
    canvas::{Anchor, Canvas, Letters},
    style::{GRID, QUIET},
};

/// The rectangle that values are drawn in, in pixels, and the ranges of values that it shows.
pub struct Axes {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub x: std::ops::Range<f64>,
    /// The value at the upper end; 0 is the lower one.
    pub y_max: f64,
}

impl Axes {
    pub fn x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * (value - self.x.start) / (self.x.end - self.x.start)
    }

    pub fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * value / self.y_max
    }

    /// Horizontal lines at round values, and what they count.
    pub fn draw_y(&self, canvas: &mut Canvas, title: &str) {
        let letters = Letters::new(12.0, QUIET);
        for (value, label) in ticks(0.0..self.y_max) {
            canvas.line(&[(self.left, self.y(value)), (self.right, self.y(value))], 1.0, GRID);
            canvas.text(&label, (self.left - 8.0, self.y(value)), letters.at(Anchor::End));
        }
        let middle = (6.0, (self.top + self.bottom) / 2.0);
        canvas.text(title, middle, letters.at(Anchor::Middle).upwards());
    }

    /// Round values below the frame, and what they count.
    pub fn draw_x(&self, canvas: &mut Canvas, title: &str) {
        let letters = Letters::new(12.0, QUIET).at(Anchor::Middle);
        for (value, label) in ticks(self.x.clone()) {
            canvas.text(&label, (self.x(value), self.bottom + 12.0), letters);
        }
        canvas.text(title, ((self.left + self.right) / 2.0, self.bottom + 32.0), letters);
    }
}

/// At most eight round values of a range, written with as many digits as tell them apart.
fn ticks(range: std::ops::Range<f64>) -> Vec<(f64, String)> {
    let about = (range.end - range.start) / 6.0;
    if !about.is_finite() || about <= 0.0 {
        return Vec::new();
    }
    let power = about.log10().floor();
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * 10f64.powf(power)).into_iter().find(|s| *s >= about).unwrap_or(about);
    let digits = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let first = (range.start / step).ceil();
    let values = (0..8).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= range.end);
    values.map(|v| (v, format!("{v:.digits$}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_labels_are_the_same() {
        for (range, expected) in [
            (0.0..0.26, "0.00 0.05 0.10 0.15 0.20 0.25"),
            (0.0..118.0, "0 20 40 60 80 100"),
            (64.0..1087.0, "200 400 600 800 1000"),
            (0.0..0.0, ""),
        ] {
            let labels: Vec<String> = ticks(range.clone()).into_iter().map(|t| t.1).collect();
            assert_eq!(labels.join(" "), expected, "{range:?}");
        }
    }
}
