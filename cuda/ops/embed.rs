//! Embedding rows.

use crate::{Grid, Params, Ptr, Result, Stream};

/// Params.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct EmbedParams {
    /// Table.
    pub w: Ptr<u8>,
    /// Ids.
    pub token: Ptr<i32>,
    /// Idle.
    pub seq: Ptr<i32>,
    /// Out.
    pub y: Ptr<f32>,
    /// Rows.
    pub rows: i32,
    /// Width.
    pub k: i32,
    /// Type.
    pub format: i32,
    /// Factor.
    pub scale: f32,
}
// SAFETY: embed.cu
unsafe impl Params for EmbedParams {}

/// Launches.
///
/// # Errors
/// The driver's.
pub fn embed(s: &Stream, p: &EmbedParams) -> Result<()> {
    s.launch("embed", Grid::plane(p.rows as u32, (p.k as u32).div_ceil(1024), 128), p)
}
