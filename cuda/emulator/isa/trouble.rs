//! What an instruction ran into, before it is known where.

/// What is wrong, and in which lanes; the block adds kernel, warp, threads and line.
#[derive(Debug)]
pub(super) struct Trouble {
    /// A `CUresult`.
    pub code: i32,
    pub lanes: u32,
    pub what: String,
}

/// The error is boxed: the hot path returns a pointer.
pub(super) type Checked<T> = Result<T, Box<Trouble>>;

pub(super) const INVALID: i32 = 1;
pub(super) const ILLEGAL_ADDRESS: i32 = 700;
pub(super) const OUT_OF_RESOURCES: i32 = 701;
pub(super) const MISALIGNED: i32 = 716;
pub(super) const FAILED: i32 = 719;

#[cold]
pub(super) fn trouble<T>(code: i32, lanes: u32, what: impl Into<String>) -> Checked<T> {
    Err(Box::new(Trouble { code, lanes, what: what.into() }))
}

/// How it is said that a lane holds no value.
pub(super) const NEVER_WRITTEN: &str = "was never written";

/// Err where a lane of the mask is not among those that hold a value.
#[inline(always)]
pub(super) fn written(mask: u32, lanes: u32, what: &str) -> Checked<()> {
    match mask & !lanes {
        0 => Ok(()),
        missing => trouble(FAILED, missing, format!("{what} {NEVER_WRITTEN}")),
    }
}
