//! One row of the table of flags.

use super::value::{Takes, Value};
use crate::cli::args::{Args, Sampling};

/// One row: all spellings of a flag and what becomes of it.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Spellings as typed, separated by `, `; a leading `!` marks one that switches the flag off.
    pub names: &'static str,
    /// What follows the flag.
    pub takes: Takes,
    /// What qrun does with it.
    pub status: Status,
    /// Heading in the help; rows without one are listed by `--help-all` only.
    pub group: Option<Group>,
    /// One line of help.
    pub help: &'static str,
    /// The environment variable that stands for the flag, or "".
    pub env: &'static str,
    /// What a value of the flag sets.
    pub apply: Apply,
    /// The value in effect, of a flag that `/set` changes in the middle of a chat.
    pub value: Option<fn(&Sampling) -> String>,
}

/// Lets a flag have its effect.
pub type Apply = fn(&mut Args, Value);

/// Of flags that are answered and not used.
const NOTHING: Apply = |_, _| {};

/// What qrun does with a flag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Status {
    /// Has the effect that its help line names.
    Used,
    /// The same behind `qrun serve`; elsewhere refused, unless its value is this one.
    Serve(&'static str),
    /// The same behind `qrun serve`; elsewhere accepted without effect: one line on stderr gives this reason.
    ServeOrNoted(&'static str),
    /// What qrun does in any case: accepted in silence, but for the value `off`, which is noted.
    NoOp,
    /// Accepted without effect: one line on stderr gives the reason in `help`.
    Noted,
    /// Would change the text or needs what qrun does not have: exit 2, the reason is in `help`.
    Refused,
    /// Refused unless its value is this one, which is what qrun does anyway.
    RefusedUnless(&'static str),
}

/// Headings of the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What the model reads.
    Prompt,
    /// How the next token is chosen.
    Sampling,
    /// Model, device, memory and threads.
    Machine,
    /// What goes to stdout and stderr, and in which form.
    Output,
    /// Where `qrun serve` listens, and whom it answers.
    Server,
}

impl Group {
    /// All headings in the order of the help.
    pub const ALL: [(Group, &'static str); 5] = [
        (Group::Prompt, "Prompt"),
        (Group::Sampling, "Sampling"),
        (Group::Machine, "Model and machine"),
        (Group::Output, "Output"),
        (Group::Server, "Server (qrun serve)"),
    ];
}

impl Flag {
    /// A flag that qrun supports.
    pub const fn used(names: &'static str, takes: Takes, help: &'static str, apply: Apply) -> Self {
        Flag { names, takes, status: Status::Used, group: None, help, env: "", apply, value: None }
    }
    /// A flag of `qrun serve`.
    pub const fn serve(names: &'static str, takes: Takes, help: &'static str, apply: Apply) -> Self {
        Flag { names, takes, status: Status::Serve(""), group: None, help, env: "", apply, value: None }
    }
    /// A value of a flag of `qrun serve` that says elsewhere what qrun does anyway.
    pub const fn elsewhere(mut self, same: &'static str) -> Self {
        self.status = Status::Serve(same);
        self
    }
    /// A flag of `qrun serve` that has no effect elsewhere, and why.
    pub const fn noted_elsewhere(mut self, why: &'static str) -> Self {
        self.status = Status::ServeOrNoted(why);
        self
    }
    /// What qrun does in any case.
    pub const fn no_op(names: &'static str, takes: Takes, help: &'static str) -> Self {
        Flag { names, takes, status: Status::NoOp, group: None, help, env: "", apply: NOTHING, value: None }
    }
    pub const fn noted(names: &'static str, takes: Takes, why: &'static str) -> Self {
        Flag { names, takes, status: Status::Noted, group: None, help: why, env: "", apply: NOTHING, value: None }
    }
    pub const fn refused(names: &'static str, takes: Takes, why: &'static str) -> Self {
        Flag { names, takes, status: Status::Refused, group: None, help: why, env: "", apply: NOTHING, value: None }
    }
    pub const fn unless(names: &'static str, takes: Takes, same: &'static str, why: &'static str) -> Self {
        Flag {
            names,
            takes,
            status: Status::RefusedUnless(same),
            group: None,
            help: why,
            env: "",
            apply: NOTHING,
            value: None,
        }
    }
    pub const fn shown(mut self, group: Group) -> Self {
        self.group = Some(group);
        self
    }
    pub const fn env(mut self, name: &'static str) -> Self {
        self.env = name;
        self
    }

    /// A flag that `/set` changes in the middle of a chat; `value` reads what is in effect.
    pub const fn settable(mut self, value: fn(&Sampling) -> String) -> Self {
        self.value = Some(value);
        self
    }

    /// The spellings with what they mean: `true` switches on, `false` off.
    pub fn spellings(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.names.split(", ").map(|name| match name.strip_prefix('!') {
            Some(name) => (name, false),
            None => (name, true),
        })
    }

    /// The name inside the program: the first long spelling without its dashes.
    pub fn id(&self) -> &'static str {
        let long = self.spellings().find_map(|(name, on)| name.strip_prefix("--").filter(|_| on));
        long.unwrap_or_else(|| self.names.trim_start_matches(['!', '-']))
    }
}
