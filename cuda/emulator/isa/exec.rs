//! One decoded instruction for the lanes of one warp: everything but control flow.

mod access;
mod longs;
mod predicates;
mod together;
mod words;

use super::code::sass::Sass;
use super::code::{Kernel, Op};
use super::count::At;
use super::memory::Global;
use super::registers::{ALL, Registers};
use super::sass;
use super::shared::Shared;
use super::trouble::Checked;
use super::{Approximation, GlobalMemory};

pub(super) use predicates::{ballot, real, whole};
pub(super) use words::{dot4, permute, real2, signed};

/// What the warps of a launch have in common.
pub(super) struct Context<'a> {
    pub kernel: &'a Kernel,
    pub params: &'a [u8],
    pub approximation: Approximation,
    pub memory: &'a dyn GlobalMemory,
    pub global: Global<'a>,
    pub shared: Shared,
    /// Counts by instruction.
    pub at: Vec<At>,
    /// The last load of shared bytes that nothing wrote, and what there is to say about it.
    pub unwritten: Option<(usize, String)>,
    /// By warp and lane: the group of asynchronous copies that is open.
    pub groups: Vec<[u32; 32]>,
}

/// Executes the instruction at `pc` in the lanes of a mask that is not empty. What lanes do together was found to be
/// together. Everything that it calls for each lane is compiled into it: with AVX2 for eight lanes at once.
#[cfg_attr(avx2, target_feature(enable = "avx2,fma,bmi2,popcnt"))]
pub(super) fn execute(
    op: &Op,
    w: &mut Registers,
    mask: u32,
    context: &mut Context<'_>,
    (pc, warp): (usize, usize),
) -> Checked<()> {
    match *op {
        Op::Unary(f, d, a) => words::unary(f, w, mask, d, a, context.approximation),
        Op::Binary(f, d, ab) => words::binary(f, w, mask, d, ab),
        Op::Ternary(f, d, abc) => words::ternary(f, w, mask, d, abc),
        Op::Insert(d, abcd) => words::insert(w, mask, d, abcd),
        Op::Halves(d, a) => words::halves(w, mask, d, a),
        Op::UnaryLong(f, d, a) => longs::unary(f, w, mask, d, a),
        Op::BinaryLong(f, d, ab) => longs::binary(f, w, mask, d, ab),
        Op::TernaryLong(f, d, abc) => longs::ternary(f, w, mask, d, abc),
        Op::ShiftLong(f, d, a, n) => longs::shift(f, w, mask, d, a, n),
        Op::Widen(f, d, a) => longs::widen(f, w, mask, d, a),
        Op::WidenTwo(f, d, ab) => longs::widen_two(f, w, mask, d, ab),
        Op::Narrow(f, d, a) => longs::narrow(f, w, mask, d, a),
        Op::Words(d, a) => longs::words(w, mask, d, a),
        Op::Compare(test, kind, d, ab) => predicates::compare(test, kind, w, mask, d, ab),
        Op::Select(d, ab, p) => predicates::select(w, mask, d, ab, p),
        Op::SelectLong(d, ab, p) => predicates::select_long(w, mask, d, ab, p),
        Op::Logic(f, d, ab) => predicates::logic(f, w, mask, d, ab),
        Op::Load(space, access) => return access::load(space, &access, w, mask, context, pc),
        Op::Store(space, access) => return access::store(space, &access, w, mask, context, pc),
        Op::Atomic(space, f, access, value) => {
            return access::atomic(space, f, &access, value, w, mask, (context, pc));
        }
        Op::LoadMatrix { d, count, transposed, address } => {
            return together::load_matrix(&d[..usize::from(count)], transposed, address, w, context, pc);
        }
        Op::Mma(mma, list) => return together::multiply(mma, list as usize, w, context, pc),
        Op::Copy { to, from, bytes } => {
            let whole = access::sixteen(bytes, w, mask)?;
            return access::copy(to, from, whole, w, mask, (context, pc, warp));
        }
        Op::Prefetch(address) => return access::prefetch(address, w, mask, context, pc),
        Op::CopyCommit => access::commit(mask, context, warp),
        Op::CopyWait(groups) => access::wait(groups, mask, context, warp),
        Op::Shuffle { how, d, valid, value, lane, clamp, .. } => {
            return together::shuffle(how, d, valid, [value, lane, clamp], w, mask);
        }
        Op::Ballot { d, predicate, .. } => return together::ballot(d, predicate, w, mask),
        Op::Sass(Sass::Move { d, a, rows }) => sass::copy(w, mask, d, a, rows),
        Op::Sass(Sass::LoadUniform(space, access)) => return access::load(space, &access, w, ALL, context, pc),
        Op::Sass(Sass::Vote { ballot, holds, all, condition, uniform }) => {
            return together::vote([ballot, holds], (condition, all), w, mask, if uniform { ALL } else { mask });
        }
        Op::Sass(Sass::CompareSwap { access, swapped, compare, value }) => {
            return access::compare_swap(&access, swapped, [compare, value], w, mask, (context, pc));
        }
        Op::Sass(Sass::Copy { to, from, whole }) => {
            let whole = together::holding(whole, w, mask, "whether it copies")?;
            return access::copy(to, from, whole, w, mask, (context, pc, warp));
        }
        Op::Sass(Sass::Compute(f)) => sass::compute(f, w, mask, context.approximation),
        Op::Fence(host) => {
            context.global.visible.fence(mask);
            (0..if host { mask.count_ones() } else { 0 }).for_each(|_| context.memory.published(None));
        }
        Op::WarpBarrier(_) | Op::Barrier | Op::BarrierOr(..) | Op::Branch(_) | Op::Return => (),
        Op::Sass(Sass::Branch(_) | Sass::Result(_)) => (),
    }
    Ok(())
}
