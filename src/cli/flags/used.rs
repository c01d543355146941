//! Flags that have their meaning in qrun.

use super::{
    Check::{File, OneOf, Real, Text, Whole, WholeOr},
    Flag,
    Group::{Machine, Output, Prompt, Sampling},
    Takes::{Maybe, Nothing, One},
};

const MAX: i64 = i32::MAX as i64;
const BIG: f64 = 1e6;
/// Element types of the KV cache that qrun has.
pub const CACHE_TYPES: &[&str] = &["f32", "f16", "q8_0"];

#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::used("-p, --prompt", One("TEXT", Text), "the prompt; piped input is appended to it").shown(Prompt),
    Flag::used("-f, --file", One("FILE", File), "prompt from a file, less one final newline; - is stdin").shown(Prompt),
    Flag::used("-bf, --binary-file", One("FILE", File), "prompt from a file, byte for byte"),
    Flag::used("-sys, --system-prompt", One("TEXT", Text), "system prompt").shown(Prompt),
    Flag::used("-sysf, --system-prompt-file", One("FILE", File), "system prompt from a file"),
    Flag::used("-cnv, --conversation, !-no-cnv, !--no-conversation", Nothing, "force a chat; -no-cnv: raw text, no template").shown(Prompt),
    Flag::used("-i, --interactive", Nothing, "force a chat, as -cnv"),
    Flag::used("-if, --interactive-first", Nothing, "force a chat, as -cnv"),
    Flag::used("-st, --single-turn", Nothing, "one turn, then exit").shown(Prompt),
    Flag::used("-e, --escape, !--no-escape", Nothing, "\\n \\t \\\" … in prompts are expanded (the default)"),
    Flag::used("-mli, --multiline-input", Nothing, "in a chat, lines are joined until one ends in \\"),
    Flag::used("--chat-template", One("NAME|JINJA", Text), "chat template: a name, a file or Jinja text").shown(Prompt),
    Flag::used("--chat-template-file", One("FILE", File), "chat template from a file"),
    Flag::used("--chat-template-kwargs", One("JSON", Text), "an object of variables for the template").env("LLAMA_ARG_CHAT_TEMPLATE_KWARGS"),
    Flag::used("-rea, --reasoning", Maybe(&["on", "off", "auto"]), "thinking on|off|auto, where the template knows it").env("LLAMA_ARG_REASONING"),

    Flag::used("-n, --predict, --n-predict", One("N", Whole(-2, MAX)), "tokens to write; -1: no limit, -2: until the context is full").env("LLAMA_ARG_N_PREDICT").shown(Sampling),
    Flag::used("-s, --seed", One("N", Whole(-1, u32::MAX as i64)), "seed; -1: another one each time").shown(Sampling),
    Flag::used("--temp, --temperature", One("X", Real(-BIG, BIG)), "temperature [0.8]; 0: always the likeliest token").env("LLAMA_ARG_TEMPERATURE").shown(Sampling),
    Flag::used("--top-k", One("N", Whole(-1, MAX)), "choose among the N likeliest [40]; 0: off").env("LLAMA_ARG_TOP_K").shown(Sampling),
    Flag::used("--top-p", One("X", Real(0.0, 1.0)), "… that together have probability X [0.95]; 1: off").env("LLAMA_ARG_TOP_P").shown(Sampling),
    Flag::used("--min-p", One("X", Real(0.0, 1.0)), "… not below X times the likeliest [0.05]; 0: off").env("LLAMA_ARG_MIN_P").shown(Sampling),
    Flag::used("--typical, --typical-p", One("X", Real(0.0, 1.0)), "locally typical sampling [1: off]"),
    Flag::used("--repeat-penalty", One("X", Real(0.0, BIG)), "penalty for repeated tokens [1: off]").env("LLAMA_ARG_REPEAT_PENALTY").shown(Sampling),
    Flag::used("--repeat-last-n", One("N", Whole(-1, MAX)), "tokens it looks back [64]; -1: all").shown(Sampling),
    Flag::used("--presence-penalty", One("X", Real(-BIG, BIG)), "presence penalty [0: off]").env("LLAMA_ARG_PRESENCE_PENALTY"),
    Flag::used("--frequency-penalty", One("X", Real(-BIG, BIG)), "frequency penalty [0: off]").env("LLAMA_ARG_FREQUENCY_PENALTY"),
    Flag::used("-l, --logit-bias", One("ID±BIAS", Text), "15043+1 makes token 15043 likelier, 15043-inf forbids it"),
    Flag::used("-r, --reverse-prompt", One("TEXT", Text), "stop where the answer has this text (repeatable)").shown(Sampling),
    Flag::used("--ignore-eos", Nothing, "go on after the end-of-text token").shown(Sampling),

    Flag::used("-m, --model", One("FILE", File), "the GGUF file (as the first word alone)").env("LLAMA_ARG_MODEL").shown(Machine),
    Flag::used("-c, --ctx-size", One("N", Whole(0, MAX)), "context in tokens [what the model allows and memory holds]").env("LLAMA_ARG_CTX_SIZE").shown(Machine),
    Flag::used("--device, -dev", One("WHERE", OneOf(&["auto", "cuda", "cpu", "none", "cuda0"])), "auto (the GPU if the model runs there), cuda or cpu [auto]").env("LLAMA_ARG_DEVICE").shown(Machine),
    Flag::used("-ngl, --gpu-layers, --n-gpu-layers", One("N", WholeOr(-1, MAX, &["auto", "all"])), "0: CPU; else as many layers on the GPU as there are").env("LLAMA_ARG_N_GPU_LAYERS").shown(Machine),
    Flag::used("-t, --threads", One("N", Whole(-1, 1024)), "CPU threads [physical cores]").env("LLAMA_ARG_THREADS").shown(Machine),
    Flag::used("-ub, --ubatch-size", One("N", Whole(1, 65536)), "tokens of a prompt per step [512]").env("LLAMA_ARG_UBATCH"),
    Flag::used("--exact", Nothing, "f32 arithmetic throughout: the reference, slower").shown(Machine),
    Flag::used("-ctk, --cache-type-k", One("TYPE", OneOf(CACHE_TYPES)), "type of the K cache: f16, q8_0 or f32 [f16]").env("LLAMA_ARG_CACHE_TYPE_K").shown(Machine),
    Flag::used("-ctv, --cache-type-v", One("TYPE", OneOf(CACHE_TYPES)), "type of the V cache: f16, q8_0 or f32 [f16]").env("LLAMA_ARG_CACHE_TYPE_V"),
    Flag::used("--swa-full", Nothing, "keep all of a sliding window's past").env("LLAMA_ARG_SWA_FULL"),
    Flag::used("--repack, !-nr, !--no-repack", Nothing, "lay weights out for this CPU at load (the default)").env("LLAMA_ARG_REPACK"),
    Flag::used("--list-devices", Nothing, "list the devices and exit, as `qrun devices`"),

    Flag::used("--json", Nothing, "events as JSON lines on stdout").shown(Output),
    Flag::used("-v, --verbose, --log-verbose", Nothing, "say more on stderr").shown(Output),
    Flag::used("-lv, --verbosity, --log-verbosity", One("N", Whole(0, 5)), "0 text only … 3 normal, 4 as -v, 5").env("LLAMA_ARG_LOG_VERBOSITY"),
    Flag::used("--log-disable", Nothing, "nothing on stderr but errors, as -lv 1"),
    Flag::used("--verbose-prompt", Nothing, "show the prompt and its token ids on stderr").shown(Output),
    Flag::used("--display-prompt, !--no-display-prompt", Nothing, "repeat the raw prompt on stderr before the text"),
    Flag::used("-sp, --special", Nothing, "show special tokens in the text"),
    Flag::used("--perf, !--no-perf", Nothing, "times in llama.cpp's layout on stderr").env("LLAMA_ARG_PERF").shown(Output),
    Flag::used("--show-timings, !--no-show-timings", Nothing, "speeds after each answer (the default on a terminal)").env("LLAMA_ARG_SHOW_TIMINGS"),
    Flag::used("-co, --color", Maybe(&["on", "off", "auto"]), "colours on|off|auto").shown(Output),
    Flag::used("--simple-io", Nothing, "plain lines: no line editing, no colours"),
    Flag::used("--completion-bash", Nothing, "print completions for bash, as `qrun completions bash`"),
    Flag::used("--help-all", Nothing, "every flag, also those that are only noted or refused").shown(Output),
    Flag::used("-h, --help, --usage", Nothing, "this text").shown(Output),
    Flag::used("-V, --version", Nothing, "the version").shown(Output),
];
