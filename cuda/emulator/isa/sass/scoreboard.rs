//! Registers that an instruction of unknown latency has not delivered, or not read, yet: the compiler's control words
//! have to wait for them.

use super::super::trouble::{Checked, FAILED, trouble};
use super::{Control, Uses};

/// No barrier is raised.
const NONE: u8 = 7;

/// Of one warp.
pub(in super::super) struct Scoreboard {
    /// By row: the barriers (a bit each) that are down once it is written, or once it was read.
    written: Vec<u8>,
    read: Vec<u8>,
    /// Rows that a barrier guards.
    of: [Vec<u16>; 6],
    /// Barriers that guard something.
    raised: u8,
}

impl Scoreboard {
    pub fn new() -> Self {
        let of = [const { Vec::new() }; 6];
        Self { written: vec![0; Uses::ROWS], read: vec![0; Uses::ROWS], of, raised: 0 }
    }

    /// As a block finds it.
    pub fn begin(&mut self) {
        self.lower(0x3f);
    }

    fn lower(&mut self, barriers: u8) {
        let barriers = barriers & self.raised;
        for n in (0..6).filter(|n| barriers >> n & 1 != 0) {
            for row in self.of[n].drain(..) {
                self.written[usize::from(row)] &= !(1 << n);
                self.read[usize::from(row)] &= !(1 << n);
            }
        }
        self.raised &= !barriers;
    }

    /// Checks that what the instruction reads has arrived, and that what it writes is not needed any more; then raises
    /// its own barriers.
    #[inline(always)]
    pub fn issue(&mut self, control: Control, uses: &Uses, lanes: u32) -> Checked<()> {
        if control.wait & self.raised != 0 {
            self.lower(control.wait);
        }
        if self.raised != 0 {
            self.check(uses, lanes)?;
        }
        if control.write != NONE {
            self.raise(control.write, &uses.writes, true);
        }
        if control.read != NONE {
            self.raise(control.read, &uses.reads, false);
        }
        Ok(())
    }

    fn raise(&mut self, barrier: u8, rows: &[u16], result: bool) {
        let bit = 1 << barrier;
        for row in rows {
            let marks = if result { &mut self.written } else { &mut self.read };
            marks[usize::from(*row)] |= bit;
            self.of[usize::from(barrier)].push(*row);
        }
        self.raised |= bit;
    }

    fn check(&self, uses: &Uses, lanes: u32) -> Checked<()> {
        let pending = |rows: &[u16], marks: &[u8]| rows.iter().copied().find(|row| marks[usize::from(*row)] != 0);
        if let Some(row) = pending(&uses.reads, &self.written) {
            return self.refuse(row, &self.written, "reads", "which an earlier instruction has not delivered", lanes);
        }
        if let Some(row) = pending(&uses.writes, &self.written) {
            return self.refuse(row, &self.written, "writes", "which an earlier instruction has not delivered", lanes);
        }
        if let Some(row) = pending(&uses.writes, &self.read) {
            return self.refuse(row, &self.read, "writes", "which an earlier instruction has not read yet", lanes);
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self, row: u16, marks: &[u8], verb: &str, why: &str, lanes: u32) -> Checked<()> {
        let barrier = marks[usize::from(row)].trailing_zeros();
        trouble(FAILED, lanes, format!("{verb} {}, {why}: it does not wait for barrier {barrier}", Uses::name(row)))
    }
}
