//! Registers that an instruction of unknown latency has not delivered, or not read, yet: the compiler's control words
//! have to wait for them.
//!
//! Nothing has to wait where the lanes are others (`@P0 LDC R7`, `@!P0 LDC R7`), nor for sources that an instruction of
//! the same pipe is to read: a pipe reads in order, and its results come later.

use super::super::code::rows::{Rows, Uses, ZERO};
use super::super::code::sass::Control;
use super::super::count::Class;
use super::super::trouble::{Checked, FAILED, trouble};

/// No barrier is raised.
const NONE: u8 = 7;
/// The pipe of matrix products, and that of conversions and special functions.
const MATRIX: u8 = 2;
const CONVERSIONS: u8 = 4;

/// Of one warp.
#[derive(Default)]
pub(in super::super) struct Scoreboard {
    barriers: [Barrier; 6],
    /// Barriers that guard something.
    raised: u8,
    /// Rows that are to be written, and to be read: where an instruction has none of them there is nothing to check.
    pending: [Rows; 2],
}

#[derive(Default)]
struct Barrier {
    guarded: Vec<Guarded>,
    /// The rows of `guarded` that are to be written, and those to be read.
    pending: [Rows; 2],
    /// Bits of the barriers that `guarded` names in `with`.
    with: u8,
}

/// A row that an instruction is to write or to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guarded {
    row: u16,
    /// Written; else read.
    result: bool,
    /// A bit, see [`pipe`].
    pipe: u8,
    /// The barrier that guards the result of the instruction that is to read it: what has been delivered has been read.
    with: u8,
    lanes: u32,
}

/// The bits of these rows.
pub(super) fn rows(of: &[u16]) -> Rows {
    let mut bits = Rows::default();
    of.iter().for_each(|row| bits[usize::from(row / 64)] |= 1 << (row % 64));
    bits
}

/// Whether an instruction reads or writes what is to be written, or writes what is to be read.
#[inline(always)]
fn meet(uses: &[Rows; 2], pending: &[Rows; 2]) -> bool {
    let pairs = uses.as_flattened().iter().zip(pending.as_flattened());
    pairs.fold(0, |any, (uses, pending)| any | uses & pending) != 0
}

/// The pipe of an instruction of unknown latency, as a bit; 0: it says nothing about others.
pub(super) fn pipe(class: Class) -> u8 {
    match class {
        Class::LoadGlobal | Class::StoreGlobal | Class::LoadShared | Class::StoreShared => 1,
        Class::LoadMatrix | Class::Atomic | Class::Copy | Class::Prefetch => 1,
        Class::Matrix => MATRIX,
        Class::Convert | Class::Special => CONVERSIONS,
        _ => 0,
    }
}

impl Barrier {
    fn raise(&mut self, new: Guarded) {
        let same = |g: &&mut Guarded| Guarded { lanes: new.lanes, ..**g } == new;
        match if new.is_in(&self.pending) { self.guarded.iter_mut().find(same) } else { None } {
            Some(old) => old.lanes |= new.lanes,
            None => self.guarded.push(new),
        }
        self.mark(new);
    }

    fn mark(&mut self, g: Guarded) {
        g.mark(&mut self.pending);
        self.with |= if g.with == NONE { 0 } else { 1 << g.with };
    }

    /// What some barriers guarded has been delivered, so the sources of its instructions have been read.
    fn delivered(&mut self, barriers: u8) {
        let mut guarded = std::mem::take(&mut self.guarded);
        guarded.retain(|g| g.with == NONE || barriers >> g.with & 1 == 0);
        *self = Self::default();
        guarded.iter().for_each(|g| self.mark(*g));
        self.guarded = guarded;
    }
}

impl Guarded {
    /// Its word and bit among the rows of its kind.
    fn place(self) -> (usize, usize, u64) {
        (usize::from(!self.result), usize::from(self.row / 64), 1 << (self.row % 64))
    }

    fn is_in(self, pending: &[Rows; 2]) -> bool {
        let (kind, word, bit) = self.place();
        pending[kind][word] & bit != 0
    }

    fn mark(self, pending: &mut [Rows; 2]) {
        let (kind, word, bit) = self.place();
        pending[kind][word] |= bit;
    }
}

impl Scoreboard {
    /// As a block finds it.
    pub fn begin(&mut self) {
        self.lower(0x3f);
    }

    fn lower(&mut self, barriers: u8) {
        let raised = self.raised & !barriers;
        self.pending = <[Rows; 2]>::default();
        for (n, barrier) in self.barriers.iter_mut().enumerate() {
            if barriers >> n & 1 != 0 {
                barrier.guarded.clear();
                (barrier.pending, barrier.with) = (<[Rows; 2]>::default(), 0);
            } else if raised >> n & 1 != 0 {
                if barrier.with & barriers != 0 {
                    barrier.delivered(barriers);
                }
                for (all, rows) in self.pending.iter_mut().zip(&barrier.pending) {
                    all.iter_mut().zip(rows).for_each(|(all, row)| *all |= row);
                }
            }
        }
        self.raised = raised;
    }

    /// Checks that what the instruction reads has arrived, and that what it writes is not needed any more; then raises
    /// its own barriers. `lanes` are those that do it; to know which, all of `active` read the guard.
    #[inline(always)]
    pub fn issue(&mut self, control: Control, uses: &Uses, active: u32, lanes: u32) -> Checked<()> {
        if control.wait & self.raised != 0 {
            self.lower(control.wait & self.raised);
        }
        if self.raised != 0 && meet(&uses.rows, &self.pending) {
            self.check(uses, active, lanes)?;
        }
        if control.write != NONE {
            self.raise(control.write, uses, lanes, true, NONE);
        }
        if control.read != NONE {
            self.raise(control.read, uses, lanes, false, control.write);
        }
        Ok(())
    }

    fn raise(&mut self, barrier: u8, uses: &Uses, lanes: u32, result: bool, with: u8) {
        let rows = if result { &uses.writes } else { &uses.reads };
        // Predicates and uniform registers are read when the instruction is issued.
        for &row in rows.iter().filter(|row| result || **row < ZERO) {
            let new = Guarded { row, result, pipe: uses.pipe, with, lanes };
            self.barriers[usize::from(barrier)].raise(new);
            new.mark(&mut self.pending);
        }
        self.raised |= 1 << barrier;
    }

    fn check(&self, uses: &Uses, active: u32, lanes: u32) -> Checked<()> {
        let pending = |rows: &[u16], result: bool, in_order: u8| {
            let meets = |g: &Guarded| {
                let lanes = if g.row < Uses::PREDICATES { lanes } else { active };
                g.result == result
                    && g.lanes & lanes != 0
                    && rows.contains(&g.row)
                    && (in_order == 0 || g.pipe != in_order)
            };
            let barriers = self.barriers.iter().enumerate();
            let found = barriers.into_iter().find_map(|(n, b)| Some((n, b.guarded.iter().find(|g| meets(g))?)));
            found.map(|(barrier, guarded)| (guarded.row, barrier))
        };
        let (undelivered, unread) =
            ("which an earlier instruction has not delivered", "which an earlier instruction has not read yet");
        if let Some(found) = pending(&uses.reads, true, 0) {
            return refuse(found, "reads", undelivered, lanes);
        }
        if let Some(found) = pending(&uses.writes, true, 0) {
            return refuse(found, "writes", undelivered, lanes);
        }
        if let Some(found) = pending(&uses.writes, false, uses.pipe) {
            return refuse(found, "writes", unread, lanes);
        }
        Ok(())
    }
}

#[cold]
fn refuse((row, barrier): (u16, usize), verb: &str, why: &str, lanes: u32) -> Checked<()> {
    trouble(FAILED, lanes, format!("{verb} {}, {why}: it does not wait for barrier {barrier}", Uses::name(row)))
}
