//! What a decoder tells whoever loads it.

/// What a decoder says while it loads and runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadEvent<'a> {
    /// So many bytes of weights are in their place, repacked or uploaded.
    Loading {
        /// Bytes of weights that are in their place.
        done: u64,
        /// Bytes of all weights.
        total: u64,
    },
    /// Why the device was given up, in one line.
    FellBack(&'a str),
}

/// Called with each [`LoadEvent`], on the thread that loads or steps.
pub type EventHandler = Box<dyn FnMut(LoadEvent) + Send>;

/// Hears how many bytes of weights are in their place, and of how many.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);
