//! Rectangles, lines and texts in pixels, and what they become: an SVG, or the dots of a PNG.

use std::fmt::Write;

use tiny_skia::{FillRule, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, Transform};

use super::{
    font::Font,
    style::{Color, DARK, INK, PAPER, QUIET},
};

/// Dots of a PNG to a pixel: sharp on today's screens.
const DOTS: f32 = 2.0;
/// From the middle of small letters down to the line that they stand on, over their size.
const BASELINE: f64 = 0.27;
/// The largest coordinate: numbers without sense must not become coordinates without sense.
const FAR: f64 = 1e5;

/// Letters: their size in pixels, and how they stand at their anchor, which is at half the height of a small letter.
#[derive(Debug, Clone, Copy)]
pub struct Letters {
    pub size: f64,
    pub color: Color,
    pub bold: bool,
    pub anchor: Anchor,
    /// Written upwards.
    pub upwards: bool,
}

/// The part of a text that lies at its anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Letters {
    pub fn new(size: f64, color: Color) -> Self {
        Self { size, color, bold: false, anchor: Anchor::Start, upwards: false }
    }
    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }
    pub fn at(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
    pub fn upwards(self) -> Self {
        Self { upwards: true, ..self }
    }
}

enum Shape {
    Rect([f64; 4], Color),
    Line(Vec<(f64, f64)>, f64, Color),
    Text(String, (f64, f64), Letters),
}

/// A sheet. Shapes are placed from its `origin`.
pub struct Canvas {
    width: f64,
    height: f64,
    /// Where the panel that is drawn begins.
    pub origin: (f64, f64),
    shapes: Vec<Shape>,
}

impl Canvas {
    /// An empty sheet.
    pub fn new(width: f64, height: f64) -> Self {
        let paper = Shape::Rect([0.0, 0.0, width, height], PAPER);
        Self { width, height, origin: (0.0, 0.0), shapes: vec![paper] }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let sane = |v: f64| if v.is_nan() { 0.0 } else { (v.clamp(-FAR, FAR) * 10.0).round() / 10.0 };
        (sane(x + self.origin.0), sane(y + self.origin.1))
    }

    /// A filled rectangle from its upper left corner to its lower right one.
    pub fn rect(&mut self, from: (f64, f64), to: (f64, f64), color: Color) {
        let (from, to) = (self.place(from), self.place(to));
        let size = ((to.0 - from.0).max(0.0), (to.1 - from.1).max(0.0));
        self.shapes.push(Shape::Rect([from.0, from.1, size.0, size.1], color));
    }

    /// A line through points.
    pub fn line(&mut self, points: &[(f64, f64)], width: f64, color: Color) {
        let points = points.iter().map(|&p| self.place(p)).collect();
        self.shapes.push(Shape::Line(points, width, color));
    }

    /// A text. What XML cannot hold is left out.
    pub fn text(&mut self, text: &str, at: (f64, f64), letters: Letters) {
        self.shapes.push(Shape::Text(plain(text), self.place(at), letters));
    }

    /// The heading of a panel.
    pub fn heading(&mut self, text: &str) {
        self.text(text, (0.0, 9.0), Letters::new(16.0, INK).bold());
    }

    /// A square of a colour and what it stands for; returns where the next one may begin.
    pub fn key(&mut self, text: &str, (x, y): (f64, f64), color: Color) -> f64 {
        self.rect((x, y - 5.0), (x + 10.0, y + 5.0), color);
        self.text(text, (x + 16.0, y), Letters::new(12.0, INK));
        x + 16.0 + Font::new(false).width(&plain(text), 12.0) + 24.0
    }

    /// A note in small letters.
    pub fn note(&mut self, text: &str, at: (f64, f64)) {
        self.text(text, at, Letters::new(12.0, QUIET));
    }

    /// An SVG that is dark where its reader's screen is.
    pub fn svg(&self) -> String {
        let (w, h) = (self.width, self.height);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"Noto Sans, system-ui, DejaVu Sans, sans-serif\">\n\
             <style>@media (prefers-color-scheme: dark) {{\n"
        );
        for (light, dark) in DARK.map(|(light, dark)| (light.hex(), dark.hex())) {
            let _ = writeln!(out, "[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
        }
        out += "}</style>\n";
        for shape in &self.shapes {
            let _ = match shape {
                Shape::Rect([x, y, w, h], color) => {
                    let color = color.hex();
                    writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{color}\"/>")
                }
                Shape::Line(points, width, color) => {
                    let points = points.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ");
                    let color = color.hex();
                    writeln!(
                        out,
                        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"/>"
                    )
                }
                Shape::Text(text, at, letters) => writeln!(out, "{}", svg_text(text, *at, letters)),
            };
        }
        out + "</svg>\n"
    }

    /// The dots of a PNG; `None` where memory does not hold them.
    pub fn png(&self) -> Option<Vec<u8>> {
        let mut pixmap = Pixmap::new((self.width as f32 * DOTS) as u32, (self.height as f32 * DOTS) as u32)?;
        let dots = Transform::from_scale(DOTS, DOTS);
        let fill = |pixmap: &mut Pixmap, path: Option<Path>, color: Color, transform: Transform| {
            if let Some(path) = path {
                pixmap.fill_path(&path, &paint(color), FillRule::Winding, transform.post_concat(dots), None);
            }
        };
        for shape in &self.shapes {
            match shape {
                Shape::Rect([x, y, w, h], color) => {
                    let rect = Rect::from_xywh(*x as f32, *y as f32, *w as f32, *h as f32);
                    fill(&mut pixmap, rect.map(PathBuilder::from_rect), *color, Transform::identity());
                }
                Shape::Line(points, width, color) => {
                    let stroke = Stroke { width: *width as f32, ..Stroke::default() };
                    if let Some(path) = polyline(points) {
                        pixmap.stroke_path(&path, &paint(*color), &stroke, dots, None);
                    }
                }
                Shape::Text(text, at, letters) => {
                    let path = Font::new(letters.bold).outline(text, letters.size);
                    fill(&mut pixmap, path, letters.color, text_place(text, *at, letters));
                }
            }
        }
        pixmap.encode_png().ok()
    }
}

/// A text without control characters.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}

/// The lines of a text no wider than so many pixels, broken between words.
pub fn lines(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if Font::new(false).width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn svg_text(text: &str, (x, y): (f64, f64), letters: &Letters) -> String {
    let anchor = match letters.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let weight = if letters.bold { " font-weight=\"bold\"" } else { "" };
    let turned = if letters.upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<text x=\"{x}\" y=\"{:.1}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{anchor}\"{weight}{turned}>{text}</text>",
        y + BASELINE * letters.size,
        letters.size,
        letters.color.hex(),
    )
}

fn text_place(text: &str, (x, y): (f64, f64), letters: &Letters) -> Transform {
    let width = Font::new(letters.bold).width(text, letters.size);
    let before = match letters.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => width / 2.0,
        Anchor::End => width,
    };
    let turned = Transform::from_rotate(if letters.upwards { -90.0 } else { 0.0 });
    let line = Transform::from_translate(-before as f32, (BASELINE * letters.size) as f32);
    line.post_concat(turned).post_translate(x as f32, y as f32)
}

fn paint(Color(r, g, b): Color) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, 255);
    paint
}

fn polyline(points: &[(f64, f64)]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        if i == 0 { path.move_to(x as f32, y as f32) } else { path.line_to(x as f32, y as f32) }
    }
    path.finish()
}
