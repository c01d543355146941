//! Text for stdout.

use std::io::Write;

use super::{exit::Exit, output::printable};

/// Text for stdout, its control characters written out; a reader that goes away is not a failure.
///
/// # Errors
/// stdout cannot be written.
pub fn print(text: &str) -> Result<(), Exit> {
    let mut out = std::io::stdout().lock();
    out.write_all(printable(text).as_bytes())?;
    Ok(out.flush()?)
}
