//! Weights from the file to the device: a few pinned buffers in turn, so that reading and copying overlap; quantized matrices
//! become tile records there.

use std::sync::Arc;

use qrun_quant::GgmlType;
use rayon::prelude::*;

use super::{
    formats::{self, Layout},
    grids,
};
use crate::{ArenaLayout, Gpu, Grid, Params, Pinned, Ptr, Result, Stream};

/// Bytes of one staging buffer.
const STAGE: usize = 8 << 20;
/// Bytes that a thread of the host copies at once.
const SHARE: usize = 512 << 10;
/// Staging buffers on the host: one is filled while the others are on their way.
const STAGES: usize = 3;
/// Warps of a block of `repack`, a record each.
const WARPS: u32 = 4;
/// Rows of a tile record.
const ROWS: usize = 16;

/// Bytes that a matrix takes on the device: in tile records where it is quantized, rows padded to 16 and columns to a whole
/// record; else as in the file.
pub fn bytes_on_device(format: GgmlType, [rows, k]: [usize; 2]) -> usize {
    match formats::kernels(format as i32).layout {
        Layout::File => format.bytes_of(rows * k),
        Layout::Records { columns, bytes, .. } => rows.div_ceil(ROWS) * k.div_ceil(columns) * bytes,
    }
}

/// Device memory that matrices pass through while they are uploaded.
#[derive(Debug, Clone, Copy)]
pub struct Staging {
    at: Ptr<u8>,
    bytes: usize,
}

impl Staging {
    /// Room for the largest of these matrices, or a piece of it.
    pub fn take(layout: &mut ArenaLayout, name: &str, matrices: impl Iterator<Item = (GgmlType, [usize; 2])>) -> Self {
        let needed = matrices.map(|(format, [rows, k])| piece(format, k).min(format.bytes_of(rows * k)));
        let bytes = needed.max().unwrap_or(0);
        Self { at: layout.take(name, bytes), bytes }
    }

    /// These bytes, from a multiple of 16 on.
    pub fn at(at: Ptr<u8>, bytes: usize) -> Self {
        Self { at, bytes }
    }
}

/// Bytes of a piece of a matrix: whole groups of 16 rows, one at least.
fn piece(format: GgmlType, k: usize) -> usize {
    let group = ROWS * format.bytes_of(k);
    (STAGE / group).max(1) * group
}

/// What is to be copied where.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Bytes as they are.
    Bytes(Ptr<u8>, &'a [u8]),
    /// A matrix as in the file, of `[rows, k]` weights: [`bytes_on_device`] at the address.
    Matrix(Ptr<u8>, &'a [u8], GgmlType, [usize; 2]),
}

impl<'a> Source<'a> {
    fn bytes(&self) -> &'a [u8] {
        let (Source::Bytes(_, bytes) | Source::Matrix(_, bytes, ..)) = *self;
        bytes
    }

    /// Format and row length of a matrix that becomes tile records.
    fn records(&self) -> Option<(GgmlType, usize)> {
        match *self {
            Source::Matrix(_, _, format, [_, k]) if formats::kernels(format as i32).layout != Layout::File => {
                Some((format, k))
            }
            _ => None,
        }
    }

    /// Bytes that are copied at once.
    fn piece(&self) -> usize {
        self.records().map_or(STAGE, |(format, k)| piece(format, k))
    }
}

/// Copies each source to its place, and waits for the last one. `progress` hears how many bytes are on their way, and
/// of how many.
///
/// # Errors
/// The device has no memory for a staging buffer, the driver refuses a copy or a launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): `staging` has the bytes that it was made with, each source's address room for its
/// bytes, or for [`bytes_on_device`] of its matrix.
pub unsafe fn upload(
    gpu: &Arc<Gpu>,
    stream: &Stream,
    staging: Staging,
    sources: &[Source<'_>],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let mut matrices = sources.iter().filter_map(Source::records);
    if matrices.any(|(format, _)| grids::has_grid(formats::kernels(format as i32).records)) {
        grids::keep(gpu)?;
    }
    // Page-locked memory is dear: no more than the largest piece.
    let host = sources.iter().map(|source| source.piece().min(source.bytes().len())).max().unwrap_or(0);
    let mut stages = (0..STAGES).map(|_| Pinned::new(gpu, host)).collect::<Result<Vec<_>>>()?;
    let (mut next, mut done) = (0, 0);
    let total = sources.iter().map(|source| source.bytes().len() as u64).sum();
    for source in sources {
        let (Source::Bytes(to, _) | Source::Matrix(to, ..)) = *source;
        let (size, records) = (source.piece(), source.records());
        for (i, piece) in source.bytes().chunks(size).enumerate() {
            let stage = &mut stages[next % STAGES];
            next += 1;
            // Waits until the buffer's last piece has arrived. One thread would wait for the pages of a mapped file, one by one.
            let shares = stage.as_mut_slice()[..piece.len()].par_chunks_mut(SHARE).zip(piece.par_chunks(SHARE));
            shares.for_each(|(to, from)| to.copy_from_slice(from));
            match records {
                // SAFETY: the source's place has room for its bytes, says the caller.
                None => unsafe { stream.copy_in(to.add(i * size), stage, piece.len())? },
                Some((format, k)) => {
                    assert!(piece.len() <= staging.bytes, "a piece of {} bytes in {}", piece.len(), staging.bytes);
                    let (row, before) = (format.bytes_of(k), i * size / format.bytes_of(k));
                    let to = to.add(bytes_on_device(format, [before, k]));
                    // SAFETY: staging has room for the piece, and the source's place for its records, says the caller. The
                    // stream's order keeps the piece before in its place until its records are made.
                    unsafe {
                        stream.copy_in(staging.at, stage, piece.len())?;
                        repack(stream, format, [staging.at, to], [piece.len() / row, k])?;
                    }
                }
            }
            done += piece.len() as u64;
            progress(done, total);
        }
    }
    stream.synchronize()
}

/// Parameters of [`repack`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RepackParams {
    from: Ptr<u8>,
    to: Ptr<u8>,
    rows: i32,
    k: i32,
}
// SAFETY: RepackParams in kernels/repack.cu; the test below compares size and offsets.
unsafe impl Params for RepackParams {}

/// Rows of a quantized matrix as in the file, at the first address, into tile records at the second; both are multiples of 16 bytes.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the first address has `rows` rows of `k` weights as in the file, the second room
/// for [`bytes_on_device`].
pub unsafe fn repack(stream: &Stream, format: GgmlType, [from, to]: [Ptr<u8>; 2], [rows, k]: [usize; 2]) -> Result<()> {
    let kernels = formats::kernels(format as i32);
    let Layout::Records { columns, .. } = kernels.layout else { panic!("{format} has no records") };
    assert!(k.is_multiple_of(format.format().block), "rows of {k} weights in {format}");
    assert!(from.address().is_multiple_of(16) && to.address().is_multiple_of(16), "multiples of 16 bytes");
    let params = RepackParams { from, to, rows: rows as i32, k: k as i32 };
    let records = (rows.div_ceil(ROWS) * k.div_ceil(columns)) as u32;
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch(kernels.repack, Grid::linear(records.div_ceil(WARPS), 32 * WARPS), &params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(RepackParams as "repack::RepackParams" { from, to, rows, k });
        twin::constants([("repack::WARPS", WARPS as usize)]);
    }

    #[test]
    fn pieces_are_whole_groups_of_rows() {
        assert_eq!(piece(GgmlType::Q8_0, 1152) % (16 * 36 * 34), 0);
        assert_eq!(piece(GgmlType::Q8_0, 32 << 20), 16 * (1 << 20) * 34, "rows of more than a stage: one group");
        assert_eq!(bytes_on_device(GgmlType::Q4_K, [17, 512]), 2 * 2 * 2304);
        assert_eq!(bytes_on_device(GgmlType::Q5_0, [1, 160]), 2 * 1408);
        assert_eq!(bytes_on_device(GgmlType::BF16, [3, 5]), 30);
    }
}
