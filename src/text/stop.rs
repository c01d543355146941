//! Stop strings in a stream of text: they may begin in one piece and end in a later one.

/// What may be shown after a piece of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emit {
    /// Text that no stop string begins in; the stop string itself is not part of it.
    pub text: String,
    /// Which of the stop strings was met. Nothing after it is ever shown.
    pub stopped: Option<usize>,
}

/// Looks for stop strings. Holds back the end of the text while it may be the beginning of one.
#[derive(Clone, Debug, Default)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
    stopped: Option<usize>,
}

impl StopMatcher {
    /// A matcher for these strings; empty ones are passed over.
    pub fn new(stops: Vec<String>) -> Self {
        Self { stops, held: String::new(), stopped: None }
    }

    /// Takes the next piece of text. The stop string that is complete first ends the text (of those that end
    /// together, the one that begins first), so the result is the same however the text was cut into pieces.
    pub fn push(&mut self, piece: &str) -> Emit {
        if self.stopped.is_some() {
            return Emit { text: String::new(), stopped: self.stopped };
        }
        self.held.push_str(piece);
        let complete =
            self.stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty()).filter_map(|(index, stop)| {
                let start = self.held.find(&**stop)?;
                Some((start + stop.len(), start, index))
            });
        if let Some((_, start, index)) = complete.min() {
            self.stopped = Some(index);
            self.held.truncate(start);
            return Emit { text: std::mem::take(&mut self.held), stopped: self.stopped };
        }
        let mut starts = self.held.char_indices().map(|(at, _)| at);
        let begun = starts.find(|&at| self.stops.iter().any(|stop| stop.starts_with(&self.held[at..])));
        let rest = self.held.split_off(begun.unwrap_or(self.held.len()));
        Emit { text: std::mem::replace(&mut self.held, rest), stopped: None }
    }

    /// The text ends here: gives back what was held.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}
