//! From the file to the device: a few pinned buffers in turn, so that reading and copying overlap.

use std::sync::Arc;

use super::{Gpu, Pinned, Ptr, Stream};
use crate::error::Result;

/// Bytes of one staging buffer.
const STAGE: usize = 8 << 20;
/// Staging buffers: one is filled while the others are on their way.
const STAGES: usize = 3;

/// Copies each source to its place, and waits for the last one. `progress` hears how many bytes are on their way, and
/// of how many.
///
/// # Errors
/// The device has no memory for a staging buffer, the driver refuses a copy, or an earlier launch has failed.
pub fn upload(
    gpu: &Arc<Gpu>,
    stream: &Stream,
    sources: &[(Ptr<u8>, &[u8])],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let mut stages = (0..STAGES).map(|_| Pinned::new(gpu, STAGE)).collect::<Result<Vec<_>>>()?;
    let (mut next, mut done) = (0, 0);
    let total = sources.iter().map(|(_, source)| source.len() as u64).sum();
    for (to, source) in sources {
        for (i, piece) in source.chunks(STAGE).enumerate() {
            let stage = &mut stages[next % STAGES];
            next += 1;
            // Waits until the buffer's last piece has arrived.
            stage.as_mut_slice()[..piece.len()].copy_from_slice(piece);
            stream.copy_in(to.add(i * STAGE), stage, piece.len())?;
            done += piece.len() as u64;
            progress(done, total);
        }
    }
    stream.synchronize()
}
