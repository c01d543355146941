//! The messages of a conversation by turns: a message of the user with what follows it.

use crate::text::template::Message;

/// How many turns there are.
pub fn count(messages: &[Message]) -> usize {
    messages.iter().filter(|m| m.role == "user").count()
}

/// Takes the oldest turn out, unless it is the last one; whether it did. What stands before it (a system prompt) stays.
pub fn drop_oldest(messages: &mut Vec<Message>) -> bool {
    let mut starts = messages.iter().enumerate().filter(|(_, m)| m.role == "user").map(|(i, _)| i);
    let (Some(first), Some(second)) = (starts.next(), starts.next()) else { return false };
    drop(messages.drain(first..second));
    true
}

/// A number of turns in words.
pub fn turns(n: usize) -> String {
    if n == 1 { "the oldest turn".into() } else { format!("the {n} oldest turns") }
}

/// A number of messages in words.
pub fn messages(n: usize) -> String {
    if n == 1 { "1 message".into() } else { format!("{n} messages") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_turn_goes_and_the_system_prompt_stays() {
        let roles = ["system", "user", "assistant", "user", "assistant", "user"];
        let mut list: Vec<Message> = roles.iter().map(|role| Message::new(*role, "text")).collect();
        assert!(drop_oldest(&mut list) && count(&list) == 2 && list[0].role == "system" && list.len() == 4);
        assert!(drop_oldest(&mut list));
        assert!(!drop_oldest(&mut list), "the message that is to be answered stays");
        assert_eq!(list.iter().map(|m| m.role.as_str()).collect::<Vec<_>>(), ["system", "user"]);
    }
}
