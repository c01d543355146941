//! Progress of long jobs, on stderr and only for a terminal.

use std::{io::IsTerminal, time::Duration};

use super::terminal::{Terminal, say};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that counts bytes; invisible where nobody watches.
pub fn bytes(what: &'static str) -> ProgressBar {
    bar(what, "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {eta} {wide_msg}")
}

/// A bar that counts tokens; invisible where nobody watches.
pub fn tokens(what: &'static str) -> ProgressBar {
    bar(what, "{prefix} {wide_bar} {pos}/{len} tokens {eta}")
}

fn bar(what: &'static str, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_prefix(what)
}

/// A bar that counts steps and estimates the time left; invisible where nobody watches. A thread of its own draws it.
pub fn estimate(steps: u64) -> ProgressBar {
    let bar = bar("measuring", "{prefix} {wide_bar} {percent} %, {eta} left {msg}");
    bar.set_length(steps);
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(250));
    }
    bar
}

/// A bar that counts bytes of weights while a model is loaded; for a large one that takes seconds.
pub fn loading(terminal: &Terminal) -> ProgressBar {
    if terminal.draws() { bytes("loading") } else { ProgressBar::hidden() }
}

/// The last line of a job.
pub fn done(text: &str) {
    say(text);
}
