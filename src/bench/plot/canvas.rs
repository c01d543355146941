//! Rectangles, lines and texts in pixels, written as an SVG and drawn as dots at once.

use std::{fmt::Write, sync::OnceLock};

use tiny_skia::{FillRule, Paint, PathBuilder, Pixmap, Rect, Stroke, Transform};
use ttf_parser::{Face, OutlineBuilder};

/// Red, green, blue.
pub type Color = [u8; 3];
pub const INK: Color = [31, 35, 40];
pub const QUIET: Color = [89, 99, 110];
pub const GRID: Color = [222, 226, 230];

/// Width of the sheet, in pixels.
pub const WIDTH: f64 = 1080.0;
/// Dots of a PNG to a pixel: sharp on today's screens.
const DOTS: f64 = 2.0;
/// From the middle of small letters down to the line that they stand on, over their size.
const BASELINE: f64 = 0.27;
/// The largest coordinate: numbers without sense must not become coordinates without sense.
const FAR: f64 = 1e5;

/// Letters: size in pixels, and the part of a text (0, ½, 1) that lies at its place, at half the height of a small letter.
#[derive(Debug, Clone, Copy)]
pub struct Letters {
    pub size: f64,
    pub bold: bool,
    pub color: Color,
    pub align: f64,
}
pub const BOLD: Letters = Letters { size: 12.0, bold: true, color: INK, align: 0.0 };
pub const PLAIN: Letters = Letters { bold: false, ..BOLD };
pub const NOTE: Letters = Letters { color: QUIET, ..PLAIN };

/// A sheet.
pub struct Canvas {
    svg: String,
    dots: Pixmap,
}

impl Canvas {
    /// An empty sheet; `None` where memory does not hold its dots.
    pub fn new(height: f64) -> Option<Self> {
        let mut dots = Pixmap::new((WIDTH * DOTS) as u32, (height * DOTS) as u32)?;
        dots.fill(tiny_skia::Color::WHITE);
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"Noto Sans, system-ui, DejaVu Sans, sans-serif\">\n\
             <style>@media (prefers-color-scheme: dark) {{ svg {{ filter: invert(0.93) hue-rotate(180deg) }} }}</style>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n"
        );
        Some(Self { svg, dots })
    }

    /// A filled rectangle from its upper left corner.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), color: Color) {
        let ((x, y), (w, h), fill) = (sane(at), sane((size.0.max(0.0), size.1.max(0.0))), hex(color));
        let _ = writeln!(self.svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{fill}\"/>");
        if let Some(rect) = Rect::from_xywh(x as f32, y as f32, w as f32, h as f32) {
            self.dots.fill_rect(rect, &paint(color), dots(Transform::identity()), None);
        }
    }

    /// A line through points.
    pub fn line(&mut self, points: &[(f64, f64)], width: f64, color: Color) {
        let (mut path, mut list) = (PathBuilder::new(), String::new());
        for (i, (x, y)) in points.iter().map(|&p| sane(p)).enumerate() {
            let _ = write!(list, "{x},{y} ");
            if i == 0 { path.move_to(x as f32, y as f32) } else { path.line_to(x as f32, y as f32) }
        }
        let stroke = format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"", hex(color));
        let _ = writeln!(self.svg, "<polyline points=\"{}\" {stroke}/>", list.trim_end());
        if let Some(path) = path.finish() {
            let stroke = Stroke { width: width as f32, ..Stroke::default() };
            self.dots.stroke_path(&path, &paint(color), &stroke, dots(Transform::identity()), None);
        }
    }

    /// A text. What XML cannot hold is left out.
    pub fn text(&mut self, text: &str, at: (f64, f64), letters: Letters) {
        let ((x, y), text, Letters { size, color, bold, align }) = (sane(at), plain(text), letters);
        let anchor = ["start", "middle", "end"][(2.0 * align) as usize];
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let baseline = y + BASELINE * size;
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(
            self.svg,
            "<text x=\"{x}\" y=\"{baseline:.1}\" font-size=\"{size}\" fill=\"{}\" text-anchor=\"{anchor}\"{weight}>{escaped}</text>",
            hex(color)
        );
        let ((face, scale), mut left) = (font(letters), (x - align * width(&text, letters)) as f32);
        for glyph in text.chars().map(|c| face.glyph_index(c).unwrap_or_default()) {
            let mut letter = Pen(PathBuilder::new());
            face.outline_glyph(glyph, &mut letter);
            if let Some(path) = letter.0.finish() {
                // From font units, upwards, to pixels, downwards.
                let place = Transform::from_row(scale, 0.0, 0.0, -scale, left, baseline as f32);
                self.dots.fill_path(&path, &paint(color), FillRule::Winding, dots(place), None);
            }
            left += scale * f32::from(face.glyph_hor_advance(glyph).unwrap_or(0));
        }
    }

    pub fn svg(self) -> String {
        self.svg + "</svg>\n"
    }
    /// `None` where memory does not hold them.
    pub fn png(&self) -> Option<Vec<u8>> {
        self.dots.encode_png().ok()
    }
}

fn dots(place: Transform) -> Transform {
    place.post_scale(DOTS as f32, DOTS as f32)
}

fn sane((x, y): (f64, f64)) -> (f64, f64) {
    let sane = |v: f64| if v.is_nan() { 0.0 } else { (v.clamp(-FAR, FAR) * 10.0).round() / 10.0 };
    (sane(x), sane(y))
}

fn hex([r, g, b]: Color) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

fn paint([r, g, b]: Color) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, 255);
    paint
}

/// A text without control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}

/// The lines of a text no wider than so many pixels, broken between words.
pub fn lines(text: &str, letters: Letters, widest: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in plain(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), letters) <= widest => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Noto Sans, as it is in the program, and the pixels of one of its units.
fn font(letters: Letters) -> (&'static Face<'static>, f32) {
    static FONTS: OnceLock<[Face; 2]> = OnceLock::new();
    let face = |bytes| Face::parse(bytes, 0).expect("the font in the program is a font");
    let fonts = FONTS.get_or_init(|| [ttf_noto_sans::REGULAR, ttf_noto_sans::BOLD].map(face));
    let face = &fonts[usize::from(letters.bold)];
    (face, letters.size as f32 / f32::from(face.units_per_em()))
}

/// Width of a text, in pixels.
pub fn width(text: &str, letters: Letters) -> f64 {
    let (face, scale) = font(letters);
    let advance = |c| face.glyph_index(c).and_then(|glyph| face.glyph_hor_advance(glyph)).unwrap_or(0);
    f64::from(scale) * plain(text).chars().map(|c| f64::from(advance(c))).sum::<f64>()
}

/// The outline of a letter.
struct Pen(PathBuilder);

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.0.close();
    }
}
