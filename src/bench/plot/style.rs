//! Sizes, colours and letters. Everything is drawn in dots, two to a pixel: sharp on today's screens.

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::raster::Font;

/// Dots per pixel.
pub const DOTS: i32 = 2;
/// The plotting library's size of a font over the height of its letters' em.
pub const EM: f64 = 1.24;

pub const PAPER: RGBColor = RGBColor(255, 255, 255);
pub const INK: RGBColor = RGBColor(31, 35, 40);
pub const QUIET: RGBColor = RGBColor(89, 99, 110);
pub const GRID: RGBColor = RGBColor(222, 226, 230);
/// Okabe and Ito's colours, which people tell apart whatever they see, without the yellow that white swallows.
pub const SERIES: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 118),
];
/// What each colour above becomes on a dark screen.
const DARK: [(RGBColor, RGBColor); 11] = [
    (PAPER, RGBColor(13, 17, 23)),
    (INK, RGBColor(230, 237, 243)),
    (QUIET, RGBColor(155, 163, 173)),
    (GRID, RGBColor(45, 51, 59)),
    (SERIES[0], RGBColor(64, 156, 232)),
    (SERIES[1], RGBColor(240, 118, 40)),
    (SERIES[2], RGBColor(24, 184, 138)),
    (SERIES[3], RGBColor(222, 144, 188)),
    (SERIES[4], RGBColor(238, 176, 44)),
    (SERIES[5], RGBColor(148, 212, 252)),
    (SERIES[6], RGBColor(168, 168, 178)),
];

pub type Area<DB> = DrawingArea<DB, Shift>;
pub type PlotResult<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Pixels as dots.
pub fn px(pixels: f64) -> i32 {
    (pixels * f64::from(DOTS)).round() as i32
}

/// Letters of a size in pixels, and their colour. The anchor is the left end, at half the height of an x.
pub fn letters(pixels: f64, color: RGBColor) -> TextStyle<'static> {
    let family = FontFamily::Name("Noto Sans, system-ui, DejaVu Sans, sans-serif");
    let font = FontDesc::new(family, pixels * f64::from(DOTS) * EM, FontStyle::Normal);
    font.color(&color).pos(Pos::new(HPos::Left, VPos::Center))
}

pub trait Letters {
    fn bold(self) -> Self;
    fn centred(self) -> Self;
    fn to_the_left(self) -> Self;
}

impl Letters for TextStyle<'static> {
    fn bold(mut self) -> Self {
        self.font = self.font.style(FontStyle::Bold);
        self
    }
    fn centred(self) -> Self {
        self.pos(Pos::new(HPos::Center, VPos::Center))
    }
    /// The text ends at its anchor.
    fn to_the_left(self) -> Self {
        self.pos(Pos::new(HPos::Right, VPos::Center))
    }
}

/// Writes a text; `at` is in pixels. What XML cannot hold is left out.
pub fn write<DB: DrawingBackend>(
    area: &Area<DB>,
    text: &str,
    at: (f64, f64),
    style: TextStyle<'static>,
) -> PlotResult<DB> {
    area.draw(&Text::new(plain(text), (px(at.0), px(at.1)), style))
}

/// A text without control characters.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}

/// The lines of a text no wider than so many pixels, broken between words.
pub fn lines(text: &str, pixels: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if Font::regular().width(&format!("{line} {word}"), pixels) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A square of a colour and what it stands for; returns where the next one may begin, in pixels.
pub fn key<DB: DrawingBackend>(
    area: &Area<DB>,
    text: &str,
    at: (f64, f64),
    color: RGBColor,
) -> Result<f64, DrawingAreaErrorKind<DB::ErrorType>> {
    let (x, y) = at;
    area.draw(&Rectangle::new([(px(x), px(y - 5.0)), (px(x + 10.0), px(y + 5.0))], color.filled()))?;
    write(area, text, (x + 16.0, y), letters(12.0, INK))?;
    Ok(x + 16.0 + Font::regular().width(&plain(text), 12.0) + 24.0)
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

/// An SVG in pixels that is dark where its reader's screen is.
pub fn adaptive(svg: &str, (width, height): (u32, u32)) -> String {
    let hex = |c: RGBColor| format!("#{:02X}{:02X}{:02X}", c.0, c.1, c.2);
    let rule = |(light, dark): (RGBColor, RGBColor)| {
        let (light, dark) = (hex(light), hex(dark));
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}\n")
    };
    let rules = DARK.map(rule).concat();
    let style = format!("<style>@media (prefers-color-scheme: dark) {{\n{rules}}}</style>\n");
    let dots = DOTS as u32;
    let measures = |w: u32, h: u32| format!("width=\"{w}\" height=\"{h}\"");
    let svg = svg.replacen(&measures(width, height), &measures(width / dots, height / dots), 1);
    svg.replacen(">\n", &format!(">\n{style}"), 1)
}
