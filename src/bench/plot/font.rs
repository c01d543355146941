//! Noto Sans, as it is in the program: how wide a text is, and the outlines of its letters.

use std::sync::OnceLock;

use tiny_skia::{Path, PathBuilder};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

pub struct Font(Face<'static>);

impl Font {
    pub fn new(bold: bool) -> &'static Self {
        static FONTS: OnceLock<[Font; 2]> = OnceLock::new();
        let face = |bytes| Font(Face::parse(bytes, 0).expect("the font in the program is a font"));
        &FONTS.get_or_init(|| [ttf_noto_sans::REGULAR, ttf_noto_sans::BOLD].map(face))[usize::from(bold)]
    }

    /// Width of a text in letters of this size.
    pub fn width(&self, text: &str, size: f64) -> f64 {
        f64::from(self.glyphs(text).map(|(_, advance)| advance).sum::<f32>() * self.scale(size))
    }

    /// The letters of a text that begins at the origin.
    pub fn outline(&self, text: &str, size: f64) -> Option<Path> {
        let mut pen = Pen { path: PathBuilder::new(), x: 0.0, scale: self.scale(size) };
        for (glyph, advance) in self.glyphs(text) {
            self.0.outline_glyph(glyph, &mut pen);
            pen.x += advance;
        }
        pen.path.finish()
    }

    fn scale(&self, size: f64) -> f32 {
        size as f32 / f32::from(self.0.units_per_em())
    }

    /// Each letter's glyph and how far the next one is, in font units.
    fn glyphs(&self, text: &str) -> impl Iterator<Item = (GlyphId, f32)> {
        text.chars().map(|c| {
            let glyph = self.0.glyph_index(c).unwrap_or_default();
            (glyph, f32::from(self.0.glyph_hor_advance(glyph).unwrap_or(0)))
        })
    }
}

/// From font units, upwards, to pixels, downwards.
struct Pen {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        ((self.x + x) * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.path.close();
    }
}
