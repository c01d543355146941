//! Pictures of records: how much of the machine is used, latency over position, and speeds beside each other.

#[cfg(feature = "plot")]
mod canvas;
#[cfg(feature = "plot")]
mod page;

use serde_json::Value;

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the picture was not drawn: {0}")]
pub struct PlotError(&'static str);

/// The bytes of a PNG (two dots to a pixel) or an SVG (dark where its reader's screen is) of reports of [`super::suite`], the
/// first one in full and the others beside it, and of runs of the peers, each in bars of its own.
///
/// # Errors
/// A picture too large for memory; a build without the feature `plot`.
pub fn draw(records: &[Value], png: bool) -> Result<Vec<u8>, PlotError> {
    #[cfg(feature = "plot")]
    {
        let canvas = page::draw(records).ok_or(PlotError("it is too large for memory"))?;
        if png { canvas.png().ok_or(PlotError("it is too large for memory")) } else { Ok(canvas.svg().into_bytes()) }
    }
    #[cfg(not(feature = "plot"))]
    {
        let _ = (records, png);
        Err(PlotError("this build is without the feature plot"))
    }
}
