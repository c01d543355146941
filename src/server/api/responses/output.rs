//! The items of an answer: thoughts, messages, calls, in the order in which they come, with the events that tell of them.

use serde_json::{Value, json};

use crate::{server::conversation::Call, text::chat::Delta};

/// The items of one answer. Each step gives the events that tell of it, without their numbers.
#[derive(Debug, Default)]
pub struct Output {
    /// Those that are whole.
    pub done: Vec<Value>,
    /// All thoughts.
    pub reasoning: String,
    /// Begins the ids of the items.
    id: String,
    open: Option<Item>,
    /// Probabilities of the tokens since the last delta of text.
    probs: Vec<Value>,
}

/// An item that is still written.
#[derive(Debug)]
struct Item {
    kind: Kind,
    id: String,
    text: String,
    /// Probabilities of its tokens.
    probs: Vec<Value>,
    /// Id and name, where it is a call.
    call: Call,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Call,
}

impl Kind {
    /// Begins the ids of items.
    fn prefix(self) -> &'static str {
        match self {
            Self::Text => "msg_",
            Self::Reasoning => "rs_",
            Self::Call => "fc_",
        }
    }
    /// Names of the events of a piece of text and of the whole of it.
    fn events(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("response.output_text.delta", "response.output_text.done"),
            Self::Reasoning => ("response.reasoning_text.delta", "response.reasoning_text.done"),
            Self::Call => ("response.function_call_arguments.delta", "response.function_call_arguments.done"),
        }
    }
}

impl Item {
    /// The item as an answer shows it.
    fn json(&self, status: &str) -> Value {
        let parts = || if self.text.is_empty() { json!([]) } else { json!([self.part()]) };
        match self.kind {
            Kind::Text => {
                json!({ "id": self.id, "type": "message", "role": "assistant", "status": status, "content": parts() })
            }
            Kind::Reasoning => {
                json!({ "id": self.id, "type": "reasoning", "summary": [], "status": status, "content": parts() })
            }
            Kind::Call => json!({
                "id": self.id, "type": "function_call", "call_id": self.call.id, "name": self.call.name,
                "arguments": self.text, "status": status,
            }),
        }
    }

    /// The text as part of the item's content.
    fn part(&self) -> Value {
        match self.kind {
            Kind::Reasoning => json!({ "type": "reasoning_text", "text": self.text }),
            _ => json!({ "type": "output_text", "text": self.text, "annotations": [], "logprobs": self.probs }),
        }
    }
}

impl Output {
    /// An empty one; `id` is part of the ids of its items.
    pub fn new(id: String) -> Self {
        Self { id, ..Self::default() }
    }

    /// Probabilities of tokens whose text comes next.
    pub fn probs(&mut self, probs: Vec<Value>) {
        self.probs.extend(probs);
    }

    /// One more piece of the answer.
    pub fn take(&mut self, delta: Delta) -> Vec<Value> {
        let mut events = Vec::new();
        let (kind, text) = match delta {
            Delta::Content(text) => (Kind::Text, text),
            Delta::Reasoning(text) => {
                self.reasoning.push_str(&text);
                (Kind::Reasoning, text)
            }
            Delta::Arguments { text, .. } => (Kind::Call, text),
            Delta::ToolCall { id, name, .. } => {
                self.begin(Kind::Call, Call { id, name, arguments: String::new() }, &mut events);
                return events;
            }
        };
        if text.is_empty() {
            return events;
        }
        if self.open.as_ref().is_none_or(|item| item.kind != kind) {
            self.begin(kind, Call::default(), &mut events);
        }
        let probs = std::mem::take(&mut self.probs);
        if let Some(item) = &mut self.open {
            item.text.push_str(&text);
            let mut event = json!({ "type": kind.events().0, "delta": text });
            if kind == Kind::Text {
                event["logprobs"] = probs.clone().into();
                item.probs.extend(probs);
            }
            events.push(self.about(event));
        }
        events
    }

    /// The open item ends, whole or (`incomplete`) not.
    pub fn close(&mut self, status: &str) -> Vec<Value> {
        let Some(item) = self.open.take() else { return Vec::new() };
        let mut whole = json!({ "type": item.kind.events().1 });
        let mut events = Vec::new();
        match item.kind {
            Kind::Call => {
                whole["name"] = item.call.name.clone().into();
                whole["arguments"] = item.text.clone().into();
                events.push(self.of(&item, whole));
            }
            kind => {
                whole["text"] = item.text.clone().into();
                if kind == Kind::Text {
                    whole["logprobs"] = item.probs.clone().into();
                }
                events.push(self.of(&item, whole));
                events.push(self.of(&item, json!({ "type": "response.content_part.done", "part": item.part() })));
            }
        }
        let json = item.json(status);
        events.push(json!({ "type": "response.output_item.done", "output_index": self.done.len(), "item": json }));
        self.done.push(json);
        events
    }

    fn begin(&mut self, kind: Kind, call: Call, events: &mut Vec<Value>) {
        events.extend(self.close("completed"));
        let index = self.done.len();
        let id = format!("{}{}{index:x}", kind.prefix(), self.id);
        let item = Item { kind, id, text: String::new(), probs: Vec::new(), call };
        let added =
            json!({ "type": "response.output_item.added", "output_index": index, "item": item.json("in_progress") });
        events.push(added);
        if kind != Kind::Call {
            events.push(self.of(&item, json!({ "type": "response.content_part.added", "part": item.part() })));
        }
        self.open = Some(item);
    }

    /// An event about the open item.
    fn about(&self, event: Value) -> Value {
        match &self.open {
            Some(item) => self.of(item, event),
            None => event,
        }
    }

    /// An event about an item that stands behind those that are whole.
    fn of(&self, item: &Item, mut event: Value) -> Value {
        event["item_id"] = item.id.clone().into();
        event["output_index"] = self.done.len().into();
        if item.kind != Kind::Call {
            event["content_index"] = 0.into();
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deltas, the types and texts of the items they become, and the names of the events in their order.
    #[test]
    fn deltas_become_items_in_their_order() {
        let content = |text: &str| Delta::Content(text.into());
        let call = || Delta::ToolCall { index: 0, id: "c".into(), name: "f".into() };
        let arguments = |text: &str| Delta::Arguments { index: 0, text: text.into() };
        let text = "output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done";
        let thought = "output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done";
        let called = "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done";
        let cases = [
            (vec![], "", String::new()),
            (vec![content("a")], "message:a", text.into()),
            (vec![Delta::Reasoning("t".into()), content("a")], "reasoning:t message:a", format!("{thought} {text}")),
            (vec![content("a"), call(), arguments("{}")], "message:a function_call:{}", format!("{text} {called}")),
            (
                vec![call(), arguments("{}"), call(), arguments("[]")],
                "function_call:{} function_call:[]",
                format!("{called} {called}"),
            ),
        ];
        for (deltas, items, names) in cases {
            let mut output = Output::new("x".into());
            let mut events: Vec<Value> = deltas.iter().cloned().flat_map(|delta| output.take(delta)).collect();
            events.extend(output.close("completed"));
            let shown = output.done.iter().map(|item| {
                let text = item.pointer("/content/0/text").or_else(|| item.get("arguments"));
                format!("{}:{}", item["type"].as_str().expect("a type"), text.and_then(Value::as_str).expect("a text"))
            });
            assert_eq!(shown.collect::<Vec<_>>().join(" "), items, "{deltas:?}");
            let found =
                events.iter().map(|event| event["type"].as_str().expect("a type").trim_start_matches("response."));
            assert_eq!(found.collect::<Vec<_>>().join(" "), names, "{deltas:?}");
        }
    }
}
