//! What is shown, and how text from elsewhere is made fit for a terminal.

/// What goes to stdout and stderr, and in which form.
#[derive(Debug)]
pub struct Output {
    pub json: bool,
    /// llama.cpp's scale: 0 text, 1 errors, 2 warnings, 3 normal, 4 and 5 more.
    pub verbosity: i64,
    pub verbose_prompt: bool,
    pub display_prompt: bool,
    pub special: bool,
    pub perf: bool,
    /// `None`: on a terminal.
    pub timings: Option<bool>,
    /// `None`: on a terminal.
    pub color: Option<bool>,
    pub simple_io: bool,
    /// What is typed in chats is kept in a file.
    pub history: bool,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            json: false,
            verbosity: 3,
            verbose_prompt: false,
            display_prompt: false,
            special: false,
            perf: false,
            timings: None,
            color: None,
            simple_io: false,
            history: true,
        }
    }
}

/// The text with its control characters written out (`\u001b`), for names out of files and paths may hold any;
/// newlines and tabs stay. JSON stays JSON.
pub fn printable(text: &str) -> String {
    let unsafe_to_show = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(unsafe_to_show) {
        return text.to_owned();
    }
    let written = |c: char| if unsafe_to_show(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    text.chars().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\x1b[31mred\x07\u{9b}é\n\tz"), "a\\u001b[31mred\\u0007\\u009bé\n\tz");
        assert_eq!(printable("plain 日本 🦀"), "plain 日本 🦀");
    }
}
