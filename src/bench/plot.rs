//! Pictures of reports: how much of the machine is used, latency over position, and speeds beside each other.

#[cfg(feature = "plot")]
mod axes;
#[cfg(feature = "plot")]
mod canvas;
#[cfg(feature = "plot")]
mod comparison;
#[cfg(feature = "plot")]
mod font;
#[cfg(feature = "plot")]
mod latency;
#[cfg(feature = "plot")]
mod page;
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
pub struct Series {
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
/// A picture too large for memory; a build without the feature `plot`.
pub fn draw(series: &Series, format: Format) -> Result<Vec<u8>, PlotError> {
    #[cfg(feature = "plot")]
    {
        let canvas = page::draw(series);
        match format {
            Format::Svg => Ok(canvas.svg().into_bytes()),
            Format::Png => canvas.png().ok_or_else(|| PlotError("it is too large for memory".into())),
        }
    }
    #[cfg(not(feature = "plot"))]
    {
        let _ = (series, format);
        Err(PlotError("this build is without the feature plot".into()))
    }
}
