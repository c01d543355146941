//! Kernels that measure a machine: kernels/probe.cu.

use crate::{Grid, Params, Ptr, Result, Stream};

/// Bytes of an element.
pub const ELEMENT: usize = 16;
/// Elements that a [`link`] reads and writes.
pub const LINK: usize = 256;
/// Words that [`read`] writes per block.
pub const SUMS: usize = 8;

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Probe {
    from: Ptr<[u32; 4]>,
    to: Ptr<[u32; 4]>,
    n: u32,
    pad: u32,
}

// SAFETY: ProbeParams in kernels/probe.cu; the test below compares size and offsets.
unsafe impl Params for Probe {}

/// Launches a kernel that does nothing.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
pub fn empty(s: &Stream) -> Result<()> {
    let p = Probe { from: Ptr::NULL, to: Ptr::NULL, n: 0, pad: 0 };
    // SAFETY: the kernel takes these parameters (compared by the test below) and looks at no address.
    unsafe { s.launch("probe_empty", Grid::linear(1, 32), &p) }
}

/// Reads `n` elements with `blocks` blocks; `sums` takes [`SUMS`] words per block.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): `from` has `n` elements, `sums` room for [`SUMS`] words per block.
pub unsafe fn read(s: &Stream, blocks: u32, from: Ptr<[u32; 4]>, n: u32, sums: Ptr<u32>) -> Result<()> {
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("probe_read", Grid::linear(blocks, 256), &Probe { from, to: sums.cast(), n, pad: 0 }) }
}

/// Copies `n` elements with `blocks` blocks.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): `from` has `n` elements, `to` room for as many.
pub unsafe fn copy(s: &Stream, blocks: u32, from: Ptr<[u32; 4]>, to: Ptr<[u32; 4]>, n: u32) -> Result<()> {
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("probe_copy", Grid::linear(blocks, 256), &Probe { from, to, n, pad: 0 }) }
}

/// Writes [`LINK`] elements: those of `from`, each word plus one.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): `from` has [`LINK`] elements, `to` room for as many.
pub unsafe fn link(s: &Stream, from: Ptr<[u32; 4]>, to: Ptr<[u32; 4]>) -> Result<()> {
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("probe_link", Grid::linear(1, 256), &Probe { from, to, n: LINK as u32, pad: 0 }) }
}

/// As [`link`]; may start while the kernel before it still runs, and waits for it on the device.
///
/// # Errors
/// The driver's; GPUs below SM 9.0 cannot.
///
/// # Safety
/// As for [`link`].
pub unsafe fn dependent_link(s: &Stream, from: Ptr<[u32; 4]>, to: Ptr<[u32; 4]>) -> Result<()> {
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch_dependent("probe_link", Grid::linear(1, 256), &Probe { from, to, n: LINK as u32, pad: 0 }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(Probe as "probe::ProbeParams" { from, to, n, pad });
    }
}
