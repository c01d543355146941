//! `qrun MODEL [flags]`: a chat where someone sits at a terminal, else one turn.

use std::cell::Cell;

use crate::{
    engine::Timeline,
    generate::{Finish, Request, Session},
    text::{chat::channels, template::Message},
};
use serde_json::{Map, Value};

use super::{
    args::Args,
    chat,
    exit::{Code, Exit},
    input::{Pipe, Prompt},
    interrupt, open,
    reply::{AnswerPrinter, render, verbose_prompt},
    terminal::{Terminal, put},
};

/// How the model is spoken to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// A conversation, until the end of input or `/exit`.
    Chat,
    /// One turn in the model's chat form.
    Turn,
    /// The prompt is continued as it stands.
    Raw,
}

/// Answers, once or turn after turn.
///
/// # Errors
/// Exit code 2: no prompt, or a flag. 3 to 6: the model file, memory, the device, or a model that was not fetched. 130:
/// Ctrl-C. 1: stdin, stdout or a step fails.
pub fn run(args: &Args, terminal: Terminal, timeline: Timeline) -> Result<(), Exit> {
    interrupt::watch()?;
    let at_terminal = terminal.stdin && terminal.stdout && !args.output.json;
    let chatting = !args.chat.single_turn && args.chat.conversation.unwrap_or(at_terminal);
    let pipe = if chatting { Pipe::Leave } else { Pipe::Read };
    let prompt = Prompt::gather(&args.input, &terminal, pipe)?;
    if prompt.text.is_none() && !chatting {
        let chat = if terminal.stdin { "; -cnv chats although stdout goes elsewhere" } else { "" };
        return Err(Exit::usage(format!("no prompt: give -p TEXT or -f FILE, or pipe it in{chat}")));
    }
    let kwargs = template_variables(args)?;
    let opened = open::open(args, &terminal, timeline)?;
    let mut session = opened.session;
    let mode = mode(args, &session, chatting, &terminal)?;
    // Raw text has no messages, and `--special` shows what is written.
    let told_apart = if mode == Mode::Raw || args.output.special { None } else { channels(session.engine()) };
    let (parser, marks) = told_apart.unzip();
    let shown = AnswerPrinter {
        terminal,
        json: args.output.json,
        speeds: args.output.timings.unwrap_or(terminal.stderr && !args.output.json) && !args.output.perf,
        perf: args.output.perf,
        load_ms: opened.load_ms,
        parser,
        thoughts: args.chat.reasoning == Some(true),
        // What a person types meanwhile does not belong to the start.
        timeline: Cell::new((!chatting).then_some(opened.timeline)),
    };
    let request = Request {
        prompt: Vec::new(),
        max_tokens: usize::try_from(args.sampling.n_predict).ok(),
        stops: args.sampling.stops.iter().map(|s| args.input.unescaped(s)).collect(),
        special: args.output.special,
        marks: marks.unwrap_or_default(),
        ..Request::default()
    };
    match mode {
        Mode::Chat => chat::Chat::new(session, shown, request, kwargs, prompt.system).run(args, prompt.text),
        Mode::Turn => {
            let text = prompt.text.unwrap_or_default();
            let messages = messages(prompt.system, text);
            let prompt = render(&session, &messages, &kwargs)?;
            one_turn(args, &mut session, shown, request, &prompt)
        }
        Mode::Raw => {
            if prompt.system.is_some() {
                terminal.warn("-sys has no effect on raw text");
            }
            one_turn(args, &mut session, shown, request, &prompt.text.unwrap_or_default())
        }
    }
}

fn mode(args: &Args, session: &Session, chatting: bool, terminal: &Terminal) -> Result<Mode, Exit> {
    if args.chat.conversation == Some(false) {
        return Ok(Mode::Raw);
    }
    let has_template = !matches!(session.engine().template(), Ok(None));
    match (chatting, has_template) {
        (true, true) => Ok(Mode::Chat),
        (false, true) => Ok(Mode::Turn),
        (true, false) if args.input.prompt.is_none() || args.chat.conversation.is_some() => Err(Exit::usage(
            "the model has no chat template: give one (--chat-template chatml), or raw text (-no-cnv -p)",
        )),
        _ => {
            terminal.warn("the model has no chat template: the prompt is continued as raw text");
            Ok(Mode::Raw)
        }
    }
}

/// A conversation of one turn.
fn messages(system: Option<String>, user: String) -> Vec<Message> {
    let system = system.map(|text| Message::new("system", text));
    system.into_iter().chain([Message::new("user", user)]).collect()
}

/// `--chat-template-kwargs` and `-rea`.
///
/// # Errors
/// Exit code 2: the former is no JSON object.
pub fn template_variables(args: &Args) -> Result<Map<String, Value>, Exit> {
    let mut variables = match &args.chat.template_kwargs {
        None => Map::new(),
        Some(text) => serde_json::from_str(text)
            .map_err(|e| Exit::usage(format!("--chat-template-kwargs {text:?}: expected a JSON object: {e}")))?,
    };
    if let Some(thinking) = args.chat.reasoning {
        variables.insert("enable_thinking".into(), thinking.into());
    }
    Ok(variables)
}

fn one_turn(
    args: &Args,
    session: &mut Session,
    shown: AnswerPrinter,
    request: Request,
    text: &str,
) -> Result<(), Exit> {
    let request = Request { prompt: session.engine().prompt(text)?, ..request };
    if args.output.verbose_prompt {
        verbose_prompt(session, text, &request.prompt);
    } else if args.output.display_prompt {
        put(text);
    }
    match shown.answer(session, &request)?.finish {
        Finish::Interrupted => Err(Exit::quiet(Code::Interrupted)),
        _ => Ok(()),
    }
}
