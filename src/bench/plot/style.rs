//! Colours, and numbers as they are written.

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Color(pub u8, pub u8, pub u8);

pub const PAPER: Color = Color(255, 255, 255);
pub const INK: Color = Color(31, 35, 40);
pub const QUIET: Color = Color(89, 99, 110);
pub const GRID: Color = Color(222, 226, 230);
/// Okabe and Ito's colours, which people tell apart whatever they see, without the yellow that white swallows.
const SERIES: [Color; 7] = [
    Color(0, 114, 178),
    Color(213, 94, 0),
    Color(0, 158, 115),
    Color(204, 121, 167),
    Color(230, 159, 0),
    Color(86, 180, 233),
    Color(110, 110, 118),
];
/// What each colour above becomes on a dark screen.
pub const DARK: [(Color, Color); 11] = [
    (PAPER, Color(13, 17, 23)),
    (INK, Color(230, 237, 243)),
    (QUIET, Color(155, 163, 173)),
    (GRID, Color(45, 51, 59)),
    (SERIES[0], Color(64, 156, 232)),
    (SERIES[1], Color(240, 118, 40)),
    (SERIES[2], Color(24, 184, 138)),
    (SERIES[3], Color(222, 144, 188)),
    (SERIES[4], Color(238, 176, 44)),
    (SERIES[5], Color(148, 212, 252)),
    (SERIES[6], Color(168, 168, 178)),
];

/// Width of the sheet and of its margins, in pixels.
pub const WIDTH: f64 = 1080.0;
pub const MARGIN: f64 = 32.0;
/// What panels have to draw in.
pub const INNER: f64 = WIDTH - 2.0 * MARGIN;
/// Configurations that one picture holds.
pub const MAX_CONFIGS: usize = 12;

impl Color {
    pub fn hex(self) -> String {
        format!("#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }
}

/// The colour of the i-th series.
pub fn series(i: usize) -> Color {
    SERIES[i % SERIES.len()]
}

/// Three digits, or all before the point.
pub fn number(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => "–".into(),
        a if a >= 1e7 => format!("{x:.1e}"),
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}
