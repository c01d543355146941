//! Registers that an instruction of unknown latency has not delivered, or not read, yet: the compiler's control words
//! have to wait for them.
//!
//! Nothing has to wait where the lanes are others (`@P0 LDC R7`, `@!P0 LDC R7`), nor for sources that an instruction of
//! the same pipe is to read: a pipe reads in order, and its results come later.

use super::super::count::Class;
use super::super::trouble::{Checked, FAILED, trouble};
use super::operands::ZERO;
use super::{Control, Uses};

/// No barrier is raised.
const NONE: u8 = 7;

/// Of one warp.
pub(in super::super) struct Scoreboard {
    /// By row: what is to be written, and what is to be read.
    written: Vec<Mark>,
    read: Vec<Mark>,
    /// Rows that a barrier guards.
    of: [Vec<u16>; 6],
    /// Sources of what a barrier guards, and the barrier of their own: what has been delivered has been read.
    sources: [Vec<(u16, u8)>; 6],
    /// Barriers that guard something.
    raised: u8,
}

/// Of a row.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// A bit for each barrier that is down once it is done.
    barriers: u8,
    /// A bit for each pipe that does it.
    pipes: u8,
    lanes: u32,
}

/// The pipe of an instruction of unknown latency, as a bit; 0: it says nothing about others.
pub(super) fn pipe(class: Class) -> u8 {
    match class {
        Class::LoadGlobal | Class::StoreGlobal | Class::LoadShared | Class::StoreShared => 1,
        Class::LoadMatrix | Class::Atomic | Class::Copy => 1,
        Class::Matrix => 2,
        _ => 0,
    }
}

impl Scoreboard {
    pub fn new() -> Self {
        let of = [const { Vec::new() }; 6];
        let none = vec![Mark::default(); Uses::ROWS];
        let sources = [const { Vec::new() }; 6];
        Self { written: none.clone(), read: none, of, sources, raised: 0 }
    }

    /// As a block finds it.
    pub fn begin(&mut self) {
        self.lower(0x3f);
    }

    fn lower(&mut self, barriers: u8) {
        let barriers = barriers & self.raised;
        for n in (0..6).filter(|n| barriers >> n & 1 != 0) {
            for row in self.of[n].drain(..) {
                for mark in [&mut self.written[usize::from(row)], &mut self.read[usize::from(row)]] {
                    mark.barriers &= !(1 << n);
                    if mark.barriers == 0 {
                        *mark = Mark::default();
                    }
                }
            }
            for (row, barrier) in self.sources[n].drain(..) {
                let mark = &mut self.read[usize::from(row)];
                mark.barriers &= !(1 << barrier);
                if mark.barriers == 0 {
                    *mark = Mark::default();
                }
            }
        }
        self.raised &= !barriers;
    }

    /// Checks that what the instruction reads has arrived, and that what it writes is not needed any more; then raises
    /// its own barriers. `lanes` are those that do it; to know which, all of `active` read the guard.
    #[inline(always)]
    pub fn issue(&mut self, control: Control, uses: &Uses, active: u32, lanes: u32) -> Checked<()> {
        if control.wait & self.raised != 0 {
            self.lower(control.wait);
        }
        if self.raised != 0 {
            self.check(control, uses, active, lanes)?;
        }
        if control.write != NONE {
            self.raise(control.write, uses, lanes, true);
        }
        if control.read != NONE {
            self.raise(control.read, uses, lanes, false);
            if control.write != NONE {
                let sources = uses.reads.iter().filter(|row| **row < ZERO).map(|row| (*row, control.read));
                self.sources[usize::from(control.write)].extend(sources);
            }
        }
        Ok(())
    }

    fn raise(&mut self, barrier: u8, uses: &Uses, lanes: u32, result: bool) {
        let (rows, marks) = if result { (&uses.writes, &mut self.written) } else { (&uses.reads, &mut self.read) };
        // Predicates and uniform registers are read when the instruction is issued.
        for row in rows.iter().filter(|row| result || **row < ZERO) {
            let mark = &mut marks[usize::from(*row)];
            mark.barriers |= 1 << barrier;
            mark.pipes |= uses.pipe;
            mark.lanes |= lanes;
            self.of[usize::from(barrier)].push(*row);
        }
        self.raised |= 1 << barrier;
    }

    fn check(&self, control: Control, uses: &Uses, active: u32, lanes: u32) -> Checked<()> {
        let pending = |rows: &[u16], marks: &[Mark], in_order: u8| {
            let found = rows.iter().map(|row| (*row, marks[usize::from(*row)])).find(|(row, mark)| {
                let lanes = if *row < Uses::PREDICATES { lanes } else { active };
                mark.barriers != 0 && mark.lanes & lanes != 0 && (in_order == 0 || mark.pipes != in_order)
            });
            found.map(|(row, mark)| (row, mark.barriers.trailing_zeros()))
        };
        let (undelivered, unread) =
            ("which an earlier instruction has not delivered", "which an earlier instruction has not read yet");
        let later = if control.write == NONE { 0 } else { uses.pipe };
        if let Some(found) = pending(&uses.reads, &self.written, 0) {
            return refuse(found, "reads", undelivered, lanes);
        }
        if let Some(found) = pending(&uses.writes, &self.written, 0) {
            return refuse(found, "writes", undelivered, lanes);
        }
        if let Some(found) = pending(&uses.writes, &self.read, later) {
            return refuse(found, "writes", unread, lanes);
        }
        Ok(())
    }
}

#[cold]
fn refuse((row, barrier): (u16, u32), verb: &str, why: &str, lanes: u32) -> Checked<()> {
    trouble(FAILED, lanes, format!("{verb} {}, {why}: it does not wait for barrier {barrier}", Uses::name(row)))
}
