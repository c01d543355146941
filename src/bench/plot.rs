//! Pictures of reports: how much of the machine is used, latency over position, and speeds beside each other.

#[cfg(feature = "plot")]
mod comparison;
#[cfg(feature = "plot")]
mod latency;
#[cfg(feature = "plot")]
mod page;
#[cfg(feature = "plot")]
mod raster;
pub mod recorded;
#[cfg(feature = "plot")]
mod shares;
#[cfg(feature = "plot")]
mod style;

use std::path::Path;

use self::recorded::Peers;
use super::report::Report;

/// How a picture is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines and letters; dark where the reader's screen is.
    Svg,
    /// Pixels, two to each one of the SVG.
    Png,
}

impl Format {
    /// By the end of a file's name; `None` where that is neither.
    pub fn of(path: &Path) -> Option<Self> {
        let end = path.extension()?.to_str()?.to_ascii_lowercase();
        [(Self::Svg, "svg"), (Self::Png, "png")].into_iter().find(|(_, name)| *name == end).map(|(format, _)| format)
    }
}

/// What is drawn.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// The first one in full, the others beside it.
    pub reports: Vec<Report>,
    /// Runs beside other engines, each in bars of its own.
    pub peers: Vec<Peers>,
}

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the picture was not drawn: {0}")]
pub struct PlotError(String);

/// The bytes of a picture's file.
///
/// # Errors
/// The plotting library's, of which none is known; a picture too large for memory; a build without the feature `plot`.
#[cfg(not(feature = "plot"))]
pub fn draw(_: &Subject, _: Format) -> Result<Vec<u8>, PlotError> {
    Err(PlotError("this build is without the feature plot".into()))
}

/// The bytes of a picture's file.
///
/// # Errors
/// The plotting library's, of which none is known; a picture too large for memory.
#[cfg(feature = "plot")]
pub fn draw(subject: &Subject, format: Format) -> Result<Vec<u8>, PlotError> {
    use plotters::prelude::SVGBackend;
    let failed = |e: &dyn std::fmt::Display| PlotError(e.to_string());
    let page = page::Page::new(subject);
    let (width, height) = page.size();
    match format {
        Format::Svg => {
            let mut svg = String::new();
            page.draw(SVGBackend::with_string(&mut svg, (width, height))).map_err(|e| failed(&e))?;
            Ok(style::adaptive(&svg, (width, height)).into_bytes())
        }
        Format::Png => {
            let size = format!("{width} × {height} pixels");
            let mut pixmap = tiny_skia::Pixmap::new(width, height).ok_or_else(|| failed(&size))?;
            page.draw(raster::Raster(&mut pixmap)).map_err(|e| failed(&e))?;
            pixmap.encode_png().map_err(|e| failed(&e))
        }
    }
}
