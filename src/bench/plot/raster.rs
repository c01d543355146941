//! Pixels: a backend of the plotting library that draws smooth lines and letters, without a font of the system.

use std::{convert::Infallible, sync::OnceLock};

use plotters::style::{
    FontStyle, FontTransform,
    text_anchor::{HPos, VPos},
};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, Transform};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::style::EM;

/// Draws into a pixmap.
pub struct Raster<'a>(pub &'a mut Pixmap);

type Done = Result<(), DrawingErrorKind<Infallible>>;

impl Raster<'_> {
    fn fill(&mut self, path: Option<Path>, color: BackendColor, transform: Transform) {
        if let Some(path) = path {
            self.0.fill_path(&path, &paint(color), FillRule::Winding, transform, None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, style: &impl BackendStyle) {
        if let Some(path) = path {
            let stroke = Stroke { width: style.stroke_width() as f32, ..Stroke::default() };
            self.0.stroke_path(&path, &paint(style.color()), &stroke, Transform::identity(), None);
        }
    }
}

fn paint(color: BackendColor) -> Paint<'static> {
    let (r, g, b) = color.rgb;
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(Color::from_rgba8(r, g, b, (color.alpha.clamp(0.0, 1.0) * 255.0).round() as u8));
    paint
}

fn polyline(points: impl IntoIterator<Item = BackendCoord>) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (i, (x, y)) in points.into_iter().enumerate() {
        if i == 0 { path.move_to(x as f32, y as f32) } else { path.line_to(x as f32, y as f32) }
    }
    path
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.0.width(), self.0.height())
    }
    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }
    fn present(&mut self) -> Done {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Done {
        let path = Rect::from_xywh(x as f32, y as f32, 1.0, 1.0).map(PathBuilder::from_rect);
        self.fill(path, color, Transform::identity());
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, a: BackendCoord, b: BackendCoord, style: &S, fill: bool) -> Done {
        let path = Rect::from_ltrb(a.0 as f32, a.1 as f32, b.0 as f32, b.1 as f32).map(PathBuilder::from_rect);
        if fill {
            self.fill(path, style.color(), Transform::identity())
        } else {
            self.stroke(path, style)
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Done {
        self.stroke(polyline(path).finish(), style);
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Done {
        let mut path = polyline(path);
        path.close();
        self.fill(path.finish(), style.color(), Transform::identity());
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, at: BackendCoord, radius: u32, style: &S, fill: bool) -> Done {
        let path = PathBuilder::from_circle(at.0 as f32, at.1 as f32, radius as f32);
        if fill {
            self.fill(path, style.color(), Transform::identity())
        } else {
            self.stroke(path, style)
        }
        Ok(())
    }

    /// Anchors lie where the SVG backend has them.
    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done {
        let em = style.size() / EM;
        let font = if matches!(style.style(), FontStyle::Bold) { Font::bold() } else { Font::regular() };
        let dx = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -font.width(text, em) / 2.0,
            HPos::Right => -font.width(text, em),
        };
        let dy = match style.anchor().v_pos {
            VPos::Top => 0.76 * em,
            VPos::Center => 0.27 * em,
            VPos::Bottom => -0.27 * em,
        };
        let turned = match style.transform() {
            FontTransform::None => 0.0,
            FontTransform::Rotate90 => 90.0,
            FontTransform::Rotate180 => 180.0,
            FontTransform::Rotate270 => 270.0,
        };
        // Letters stand on a line of whole pixels.
        let origin = Transform::from_translate(dx as f32, dy.round() as f32);
        let place = Transform::from_rotate(turned).post_translate(at.0 as f32, at.1 as f32);
        self.fill(font.outline(text, em), style.color(), origin.post_concat(place));
        Ok(())
    }
}

/// Noto Sans, as it is in the program.
pub struct Font(Face<'static>);

impl Font {
    fn faces() -> &'static [Self; 2] {
        static FONTS: OnceLock<[Font; 2]> = OnceLock::new();
        let face = |bytes| Font(Face::parse(bytes, 0).expect("the font in the program is a font"));
        FONTS.get_or_init(|| [ttf_noto_sans::REGULAR, ttf_noto_sans::BOLD].map(face))
    }
    pub fn regular() -> &'static Self {
        &Self::faces()[0]
    }
    pub fn bold() -> &'static Self {
        &Self::faces()[1]
    }

    /// Each letter's glyph and where it begins, in font units, and where the text ends.
    fn glyphs(&self, text: &str) -> (Vec<(GlyphId, f32)>, f32) {
        let mut x = 0.0;
        let each = text.chars().map(|c| {
            let glyph = self.0.glyph_index(c).unwrap_or_default();
            let at = x;
            x += f32::from(self.0.glyph_hor_advance(glyph).unwrap_or(0));
            (glyph, at)
        });
        (each.collect(), x)
    }

    fn scale(&self, em: f64) -> f32 {
        em as f32 / f32::from(self.0.units_per_em())
    }

    /// How wide a text is in letters of this size.
    pub fn width(&self, text: &str, em: f64) -> f64 {
        f64::from(self.glyphs(text).1 * self.scale(em))
    }

    fn outline(&self, text: &str, em: f64) -> Option<Path> {
        let mut pen = Pen { path: PathBuilder::new(), x: 0.0, scale: self.scale(em) };
        for (glyph, x) in self.glyphs(text).0 {
            pen.x = x;
            self.0.outline_glyph(glyph, &mut pen);
        }
        pen.path.finish()
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
