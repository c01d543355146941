//! AMX: eight registers of up to 16 rows of 64 bytes, and instructions that multiply whole tiles of bytes.
//!
//! A product of `a`, 16 tokens of up to 64 columns, with `b`, whose rows hold four columns of 16 rows of weights as a line of a
//! packed panel does, adds to the 16 × 16 integers of `c`. The compiler keeps nothing in these registers, so they hold
//! their values from one function here to the next.

use std::{
    arch::{
        asm,
        x86_64::{__cpuid, __cpuid_count},
    },
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Rows of a tile, and integers of a row of sums.
pub(crate) const ROWS: usize = 16;

static IS_EMULATED: AtomicBool = AtomicBool::new(false);

/// Says that this process executes the instructions itself where the processor has none.
///
/// # Safety
/// It does, from now on.
pub(super) unsafe fn emulate() {
    IS_EMULATED.store(true, Relaxed);
}

/// Whether this process may use tiles, and products of bytes.
pub(super) fn is_here() -> bool {
    static IS_HERE: OnceLock<bool> = OnceLock::new();
    IS_EMULATED.load(Relaxed) || *IS_HERE.get_or_init(|| has_instructions() && is_permitted())
}

fn has_instructions() -> bool {
    // AMX-TILE and AMX-INT8.
    const BITS: u32 = 1 << 24 | 1 << 25;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & BITS == BITS
}

/// Asks Linux for the registers: 8 KB more that it keeps for each thread, once one of them has used them.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: a request that takes two numbers and touches no memory of this process.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Rows, and bytes of a row, of each register, as `ldtilecfg` reads them.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// The registers as they are used here, from construction until this is dropped: sums in 0, 1 and 2, tokens in 3 and 4, weights
/// in 5 and 6.
pub(crate) struct Tiles(());

impl Tiles {
    /// For products of so many columns, a multiple of four up to 64.
    ///
    /// # Safety
    /// The machine has AMX; there are no other `Tiles` on this thread.
    #[inline(always)]
    pub(crate) unsafe fn new(columns: usize) -> Self {
        let mut config = Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        for (i, (rows, bytes)) in config.rows.iter_mut().zip(&mut config.row_bytes).take(7).enumerate() {
            (*rows, *bytes) = match i {
                0..3 => (ROWS as u8, 64),
                3 | 4 => (ROWS as u8, columns as u16),
                _ => (columns as u8 / 4, 64),
            };
        }
        // SAFETY: the caller's promise; the 64 bytes say what the processor allows.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly)) };
        Self(())
    }
}

impl Drop for Tiles {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: whoever made this said that the machine has AMX.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Zeros in register `T`.
///
/// # Safety
/// This thread has [`Tiles`].
#[inline(always)]
pub(crate) unsafe fn zero<const T: u8>() {
    // SAFETY: that of this function.
    unsafe { asm!("tilezero tmm{t}", t = const T, options(nostack, nomem)) };
}

/// Reads the rows of register `T`, `stride` bytes apart.
///
/// # Safety
/// This thread has [`Tiles`]; the rows are there.
#[inline(always)]
pub(crate) unsafe fn load<const T: u8>(p: *const u8, stride: usize) {
    // SAFETY: that of this function.
    unsafe {
        asm!("tileloadd tmm{t}, [{p} + {stride}*1]", t = const T, p = in(reg) p, stride = in(reg) stride,
            options(nostack, readonly));
    }
}

/// Writes sums in register `T`.
///
/// # Safety
/// This thread has [`Tiles`].
#[inline(always)]
pub(crate) unsafe fn store<const T: u8>(sums: &mut Sums) {
    // SAFETY: that of this function; 16 rows of 64 bytes.
    unsafe {
        asm!("tilestored [{p} + {stride}*1], tmm{t}", t = const T, p = in(reg) sums, stride = in(reg) 64usize,
            options(nostack));
    }
}

/// Adds to sums `C` the products of signed bytes in `A` with signed bytes in `B`.
///
/// # Safety
/// This thread has [`Tiles`]; the registers are sums, tokens, weights.
#[inline(always)]
pub(crate) unsafe fn dot_signed<const C: u8, const A: u8, const B: u8>() {
    // SAFETY: that of this function.
    unsafe { asm!("tdpbssd tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B, options(nostack, nomem)) };
}

/// Adds to sums `C` the products of signed bytes in `A` with unsigned bytes in `B`.
///
/// # Safety
/// As [`dot_signed`].
#[inline(always)]
pub(crate) unsafe fn dot_unsigned<const C: u8, const A: u8, const B: u8>() {
    // SAFETY: that of this function.
    unsafe { asm!("tdpbsud tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B, options(nostack, nomem)) };
}

/// 16 tokens × 16 rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Sums(pub(crate) [[i32; ROWS]; ROWS]);

impl Sums {
    pub(crate) const ZERO: Self = Self([[0; ROWS]; ROWS]);
}
