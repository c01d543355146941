//! What one simulation is of.

use super::Work;
use super::cards::Card;
use super::trace::Sectors;

/// What is simulated.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    pub work: &'a Work<'a>,
    pub sectors: &'a Sectors,
    pub card: &'a Card,
    /// 0: the better end of all ranges; 1: the worse one.
    pub end: usize,
    /// Blocks that the SM holds at a time.
    pub resident: u64,
    /// Blocks that the SM runs in all.
    pub blocks: u64,
    /// Of the first block, only this warp, which finds in L1 what others use as well.
    pub only: Option<(usize, usize)>,
}
