//! The tables of recorded runs in the main README.

use anyhow::{Context, Result};

/// Puts a table between `<!-- block -->` and `<!-- end -->` of README.md.
///
/// # Errors
/// There is no such block.
pub fn put(block: &str, table: &str) -> Result<()> {
    let mark = format!("<!-- {block} -->");
    let expected = || format!("README.md: expected {mark} … <!-- end -->");
    let readme = std::fs::read_to_string("README.md")?;
    let (before, rest) = readme.split_once(&mark).with_context(expected)?;
    let (_, after) = rest.split_once("<!-- end -->").with_context(expected)?;
    Ok(std::fs::write("README.md", format!("{before}{mark}\n{table}<!-- end -->{after}"))?)
}
