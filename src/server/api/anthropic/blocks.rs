//! The blocks of Anthropic's answers: text, thoughts, calls, in the order in which they come.

use serde_json::{Value, json};

use crate::{server::stream::Piece, text::chat::Delta};

/// The blocks of one answer. Each step gives the events that tell of it.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Those that are whole.
    pub done: Vec<Value>,
    /// Whether one of them is a call.
    pub called: bool,
    open: Option<Block>,
}

/// A block that is still written.
#[derive(Debug)]
struct Block {
    kind: Kind,
    /// As it was announced, without its text.
    empty: Value,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
}

impl Kind {
    /// The type of a delta, and the field of its text.
    fn delta(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("text_delta", "text"),
            Self::Thinking => ("thinking_delta", "thinking"),
            Self::Call => ("input_json_delta", "partial_json"),
        }
    }
}

impl Blocks {
    /// One more piece of the answer.
    pub fn take(&mut self, delta: Delta) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (kind, text) = match delta {
            Delta::Content(text) => (Kind::Text, text),
            Delta::Reasoning(text) => (Kind::Thinking, text),
            Delta::Arguments { text, .. } => (Kind::Call, text),
            Delta::ToolCall { id, name, .. } => {
                self.called = true;
                let empty = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.begin(Kind::Call, empty, &mut pieces);
                return pieces;
            }
        };
        if text.is_empty() {
            return pieces;
        }
        if self.open.as_ref().is_none_or(|block| block.kind != kind) {
            let empty = match kind {
                Kind::Thinking => json!({ "type": "thinking", "thinking": "", "signature": "" }),
                _ => json!({ "type": "text", "text": "" }),
            };
            self.begin(kind, empty, &mut pieces);
        }
        if let Some(block) = &mut self.open {
            block.text.push_str(&text);
            let (name, field) = kind.delta();
            let mut delta = json!({ "type": name });
            delta[field] = text.into();
            pieces.push(self.event("content_block_delta", Some(("delta", delta))));
        }
        pieces
    }

    /// The open block ends.
    pub fn close(&mut self) -> Vec<Piece> {
        let Some(Block { kind, empty: mut whole, text }) = self.open.take() else { return Vec::new() };
        let stop = self.event("content_block_stop", None);
        match kind {
            Kind::Text => whole["text"] = text.into(),
            Kind::Thinking => whole["thinking"] = text.into(),
            // Arguments that the limit has cut are no JSON.
            Kind::Call => whole["input"] = serde_json::from_str(&text).unwrap_or_else(|_| json!({})),
        }
        self.done.push(whole);
        vec![stop]
    }

    fn begin(&mut self, kind: Kind, empty: Value, pieces: &mut Vec<Piece>) {
        pieces.extend(self.close());
        pieces.push(self.event("content_block_start", Some(("content_block", empty.clone()))));
        self.open = Some(Block { kind, empty, text: String::new() });
    }

    /// An event about the block that stands behind those that are whole.
    fn event(&self, name: &'static str, more: Option<(&str, Value)>) -> Piece {
        let mut event = json!({ "type": name, "index": self.done.len() });
        if let Some((field, value)) = more {
            event[field] = value;
        }
        Piece::named(name, &event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deltas, the blocks they become, and the names of the events in their order (without `content_block_`).
    #[test]
    fn deltas_become_blocks_in_their_order() {
        let content = |text: &str| Delta::Content(text.into());
        let thought = |text: &str| Delta::Reasoning(text.into());
        let call = |index| Delta::ToolCall { index, id: format!("c{index}"), name: "f".into() };
        let arguments = |index, text: &str| Delta::Arguments { index, text: text.into() };
        let text = |text: &str| json!({ "type": "text", "text": text });
        let used =
            |index: usize, input| json!({ "type": "tool_use", "id": format!("c{index}"), "name": "f", "input": input });
        let cases = [
            (vec![], vec![], ""),
            (vec![content("")], vec![], ""),
            (vec![content("a"), content("b")], vec![text("ab")], "start delta delta stop"),
            (
                vec![thought("t"), content("a")],
                vec![json!({ "type": "thinking", "thinking": "t", "signature": "" }), text("a")],
                "start delta stop start delta stop",
            ),
            (
                vec![content("a"), call(0), arguments(0, "{\"x\":"), arguments(0, "1}"), call(1), arguments(1, "{}")],
                vec![text("a"), used(0, json!({ "x": 1 })), used(1, json!({}))],
                "start delta stop start delta delta stop start delta stop",
            ),
            (vec![call(0), arguments(0, "{\"x\":")], vec![used(0, json!({}))], "start delta stop"),
        ];
        for (deltas, expected, events) in cases {
            let mut blocks = Blocks::default();
            let mut pieces: Vec<Piece> = deltas.iter().cloned().flat_map(|delta| blocks.take(delta)).collect();
            pieces.extend(blocks.close());
            assert_eq!(blocks.done, expected, "{deltas:?}");
            let names = pieces
                .iter()
                .map(|piece| piece.event.as_deref().unwrap_or_default().trim_start_matches("content_block_"));
            assert_eq!(names.collect::<Vec<_>>().join(" "), events, "{deltas:?}");
            // Each event names the block it belongs to: they begin and end in turns, from 0.
            let mut block = 0;
            for piece in pieces {
                let event: Value = serde_json::from_str(&piece.data).expect("JSON");
                assert_eq!(event["index"], block, "{deltas:?}: {event}");
                block += usize::from(event["type"] == "content_block_stop");
            }
        }
    }
}
