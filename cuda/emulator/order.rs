//! What may happen in any order.

/// In which order the threads of a block and the blocks of a launch run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By index.
    Forward,
    /// By index, backwards.
    Reverse,
    /// Another one at every barrier, from a seed.
    Random(u64),
}

impl Order {
    /// As in `QRUN_EMULATOR`.
    pub(crate) fn text(self) -> String {
        match self {
            Order::Forward => "forward".into(),
            Order::Reverse => "reverse".into(),
            Order::Random(seed) => format!("random:{seed}"),
        }
    }

    /// What the text names.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "forward" => Some(Order::Forward),
            "reverse" => Some(Order::Reverse),
            _ => text.strip_prefix("random:")?.parse().ok().map(Order::Random),
        }
    }
}
