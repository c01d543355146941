//! Pictures of records: how much of the machine is used, latency over position, and speeds beside each other.

#[cfg(feature = "plot")]
mod canvas;
#[cfg(feature = "plot")]
mod page;

use serde_json::Value;

/// The bytes of a PNG (two dots to a pixel) or an SVG (dark where its reader's screen is) of reports of [`super::suite`], the
/// first one in full and the others beside it, and of runs of the peers, each in bars of its own. `None` where memory does
/// not hold it, and in a build without the feature `plot`.
pub fn draw(records: &[Value], png: bool) -> Option<Vec<u8>> {
    #[cfg(feature = "plot")]
    let bytes = page::draw(records).and_then(|canvas| if png { canvas.png() } else { Some(canvas.svg().into_bytes()) });
    #[cfg(not(feature = "plot"))]
    let bytes = {
        let _ = (records, png);
        None
    };
    bytes
}
