//! Flags that have their meaning in qrun.

use super::{
    super::args::Show,
    flag::{
        Flag,
        Group::{Machine, Output, Prompt, Sampling},
    },
    value::{
        Check::{Bias, CacheType, Device, File, Real, Samplers, Text, Whole, WholeOr},
        Takes::{Maybe, Nothing, One},
    },
};

const MAX: i64 = i32::MAX as i64;
const BIG: f64 = 1e6;

#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::used("-p, --prompt", One("TEXT", Text), "the prompt; piped input is appended to it (< /dev/null: nothing is)", |a, v| a.input.prompt = Some(v.text())).shown(Prompt),
    Flag::used("-f, --file", One("FILE", File), "prompt from a file, less one final newline; - is stdin", |a, v| a.input.file = Some(v.file())).shown(Prompt),
    Flag::used("-bf, --binary-file", One("FILE", File), "prompt from a file, byte for byte", |a, v| a.input.binary_file = Some(v.file())),
    Flag::used("-sys, --system-prompt", One("TEXT", Text), "system prompt", |a, v| a.input.system = Some(v.text())).shown(Prompt),
    Flag::used("-sysf, --system-prompt-file", One("FILE", File), "system prompt from a file", |a, v| a.input.system_file = Some(v.file())),
    Flag::used("-cnv, --conversation, !-no-cnv, !--no-conversation", Nothing, "force a chat; -no-cnv: raw text, no template", |a, v| a.chat.conversation = v.choice()).shown(Prompt),
    Flag::used("-i, --interactive", Nothing, "force a chat, as -cnv", |a, v| a.chat.conversation = a.chat.conversation.or(v.on().then_some(true))),
    Flag::used("-if, --interactive-first", Nothing, "force a chat, as -cnv", |a, v| a.chat.conversation = a.chat.conversation.or(v.on().then_some(true))),
    Flag::used("-st, --single-turn", Nothing, "one turn, then exit", |a, v| a.chat.single_turn = v.on()).shown(Prompt),
    Flag::used("-e, --escape, !--no-escape", Nothing, "\\n \\t \\\" … in prompts are expanded (the default)", |a, v| a.input.escape = v.on()),
    Flag::used("-mli, --multiline-input", Nothing, "in a chat, lines are joined until one ends in \\", |a, v| a.chat.multiline = v.on()),
    Flag::used("--drop-oldest, !--no-drop-oldest", Nothing, "in a chat whose context is full the oldest turns make room", |a, v| a.chat.drop_oldest = v.on()).shown(Prompt),
    Flag::used("--chat-template", One("NAME|JINJA", Text), "chat template: a name, a file or Jinja text", |a, v| a.chat.template = Some(v.text())).shown(Prompt),
    Flag::used("--chat-template-file", One("FILE", File), "chat template from a file", |a, v| a.chat.template_file = Some(v.file())),
    Flag::used("--chat-template-kwargs", One("JSON", Text), "an object of variables for the template", |a, v| a.chat.template_kwargs = Some(v.text())).env("LLAMA_ARG_CHAT_TEMPLATE_KWARGS"),
    Flag::used("-rea, --reasoning", Maybe(&["on", "off", "auto"]), "thinking on|off|auto, where the template knows it", |a, v| a.chat.reasoning = v.choice()).env("LLAMA_ARG_REASONING"),

    Flag::used("-n, --predict, --n-predict", One("N", Whole(-2, MAX)), "tokens to write; -1: no limit, -2: until the context is full", |a, v| a.sampling.n_predict = v.whole()).env("LLAMA_ARG_N_PREDICT").shown(Sampling).settable(|s| s.n_predict.to_string()),
    Flag::used("-s, --seed", One("N", Whole(-1, u32::MAX as i64)), "seed; -1: another one each time", |a, v| a.sampling.seed = u32::try_from(v.whole()).ok()).shown(Sampling).settable(|s| s.params.seed.to_string()),
    Flag::used("--temp, --temperature", One("X", Real(-BIG, BIG)), "temperature [0.8]; 0: always the likeliest token", |a, v| a.sampling.set("temp").temperature = v.real()).env("LLAMA_ARG_TEMPERATURE").shown(Sampling).settable(|s| s.params.temperature.to_string()),
    Flag::used("--top-n-sigma, --top-nsigma", One("N", Real(-BIG, BIG)), "… N standard deviations below the likeliest at most [-1]; 0 or less: off", |a, v| a.sampling.params.top_n_sigma = v.real()).settable(|s| s.params.top_n_sigma.to_string()),
    Flag::used("--top-k", One("N", Whole(-1, MAX)), "choose among the N likeliest [40]; 0: off", |a, v| a.sampling.set("top_k").top_k = v.int()).env("LLAMA_ARG_TOP_K").shown(Sampling).settable(|s| s.params.top_k.to_string()),
    Flag::used("--top-p", One("X", Real(0.0, 1.0)), "… that together have probability X [0.95]; 1: off", |a, v| a.sampling.set("top_p").top_p = v.real()).env("LLAMA_ARG_TOP_P").shown(Sampling).settable(|s| s.params.top_p.to_string()),
    Flag::used("--min-p", One("X", Real(0.0, 1.0)), "… not below X times the likeliest [0.05]; 0: off", |a, v| a.sampling.set("min_p").min_p = v.real()).env("LLAMA_ARG_MIN_P").shown(Sampling).settable(|s| s.params.min_p.to_string()),
    Flag::used("--typical, --typical-p", One("X", Real(0.0, 1.0)), "locally typical sampling [1: off]", |a, v| a.sampling.params.typical_p = v.real()).settable(|s| s.params.typical_p.to_string()),
    Flag::used("--repeat-penalty", One("X", Real(0.0, BIG)), "penalty for repeated tokens [1: off]", |a, v| a.sampling.set("penalty_repeat").repeat_penalty = v.real()).env("LLAMA_ARG_REPEAT_PENALTY").shown(Sampling).settable(|s| s.params.repeat_penalty.to_string()),
    Flag::used("--repeat-last-n", One("N", Whole(-1, MAX)), "tokens it looks back [64]; -1: all", |a, v| a.sampling.set("penalty_last_n").repeat_last_n = v.int()).settable(|s| s.params.repeat_last_n.to_string()),
    Flag::used("--presence-penalty", One("X", Real(-BIG, BIG)), "presence penalty [0: off]", |a, v| a.sampling.params.presence_penalty = v.real()).env("LLAMA_ARG_PRESENCE_PENALTY").settable(|s| s.params.presence_penalty.to_string()),
    Flag::used("--frequency-penalty", One("X", Real(-BIG, BIG)), "frequency penalty [0: off]", |a, v| a.sampling.params.frequency_penalty = v.real()).env("LLAMA_ARG_FREQUENCY_PENALTY").settable(|s| s.params.frequency_penalty.to_string()),
    Flag::used("--samplers", One("A;B;…", Samplers), "the samplers to apply, in llama.cpp's order; those left out are off", |a, v| a.sampling.samplers = v.samplers()),
    Flag::used("-l, --logit-bias", One("ID±BIAS", Bias), "15043+1 makes token 15043 likelier, 15043-inf forbids it", |a, v| a.sampling.params.logit_bias.extend(v.bias())),
    Flag::used("-r, --reverse-prompt", One("TEXT", Text), "stop where the answer has this text (repeatable)", |a, v| a.sampling.stops.push(v.text())).shown(Sampling),
    Flag::used("--ignore-eos", Nothing, "go on after the end-of-text token", |a, v| a.sampling.ignore_eos = v.on()).shown(Sampling),

    Flag::used("-m, --model", One("FILE", File), "the GGUF file (as the first word alone)", |a, v| a.model = Some(v.file())).env("LLAMA_ARG_MODEL").shown(Machine),
    Flag::used("-c, --ctx-size", One("N", Whole(0, MAX)), "context in tokens [what the model allows and memory holds]", |a, v| a.machine.n_ctx = v.count()).env("LLAMA_ARG_CTX_SIZE").shown(Machine),
    Flag::used("--device, -dev", One("WHERE", Device), "auto (the GPU if the model runs there), cuda, cuda1 …, cpu [auto]", |a, v| a.machine.device = v.device()).env("LLAMA_ARG_DEVICE").shown(Machine),
    Flag::used("-ngl, --gpu-layers, --n-gpu-layers", One("N", WholeOr(-1, MAX, &["auto", "all"])), "0: CPU; any other number: all layers on the GPU, if there is one", |a, v| a.machine.gpu_layers = Some(v.text())).env("LLAMA_ARG_N_GPU_LAYERS").shown(Machine),
    Flag::used("-t, --threads", One("N", Whole(-1, 1024)), "CPU threads [physical cores]", |a, v| a.machine.threads = Some(v.count())).env("LLAMA_ARG_THREADS").shown(Machine),
    Flag::used("-ub, --ubatch-size", One("N", Whole(1, 65536)), "tokens of a prompt per step [512]", |a, v| a.machine.n_ubatch = v.count()).env("LLAMA_ARG_UBATCH"),
    Flag::used("--exact", Nothing, "f32 arithmetic throughout: the reference, slower", |a, v| a.machine.exact = v.on()).shown(Machine),
    Flag::used("-ctk, --cache-type-k", One("TYPE", CacheType), "type of the K cache: f16, q8_0 or f32 [f16]", |a, v| a.machine.type_k = v.cache_type()).env("LLAMA_ARG_CACHE_TYPE_K").shown(Machine),
    Flag::used("-ctv, --cache-type-v", One("TYPE", CacheType), "type of the V cache: f16, q8_0 or f32 [f16]", |a, v| a.machine.type_v = v.cache_type()).env("LLAMA_ARG_CACHE_TYPE_V"),
    Flag::used("--swa-full", Nothing, "keep all of a sliding window's past", |a, v| a.machine.swa_full = v.on()).env("LLAMA_ARG_SWA_FULL"),
    Flag::used("--repack, !-nr, !--no-repack", Nothing, "weights laid out for this CPU, in memory of their own (the default); without: in the mapped file, shared", |a, v| a.machine.repack = v.on()).env("LLAMA_ARG_REPACK"),
    Flag::used("--list-devices", Nothing, "list the devices and exit, as `qrun devices`", |a, v| a.show = v.on().then_some(Show::Devices)),

    Flag::used("--json", Nothing, "events as JSON lines on stdout", |a, v| a.output.json = v.on()).shown(Output),
    Flag::used("-v, --verbose, --log-verbose", Nothing, "say more on stderr", |a, v| a.output.verbosity = if v.on() { 4 } else { 3 }).shown(Output),
    Flag::used("-lv, --verbosity, --log-verbosity", One("N", Whole(0, 5)), "0 text only … 3 normal, 4 as -v, 5", |a, v| a.output.verbosity = v.whole()).env("LLAMA_ARG_LOG_VERBOSITY"),
    Flag::used("--log-disable", Nothing, "nothing on stderr but errors, as -lv 1", |a, v| a.output.verbosity = if v.on() { 1 } else { 3 }),
    Flag::used("--verbose-prompt", Nothing, "show the prompt and its token ids on stderr", |a, v| a.output.verbose_prompt = v.on()).shown(Output),
    Flag::used("--display-prompt, !--no-display-prompt", Nothing, "repeat the raw prompt on stderr before the text", |a, v| a.output.display_prompt = v.on()),
    Flag::used("-sp, --special", Nothing, "show special tokens in the text", |a, v| a.output.special = v.on()),
    Flag::used("--perf, !--no-perf", Nothing, "times in llama.cpp's layout on stderr", |a, v| a.output.perf = v.on()).env("LLAMA_ARG_PERF").shown(Output),
    Flag::used("--show-timings, !--no-show-timings", Nothing, "speeds after each answer (the default on a terminal)", |a, v| a.output.timings = v.choice()).env("LLAMA_ARG_SHOW_TIMINGS"),
    Flag::used("-co, --color", Maybe(&["on", "off", "auto"]), "colours on|off|auto", |a, v| a.output.color = v.choice()).shown(Output),
    Flag::used("--simple-io", Nothing, "plain lines: no line editing, no colours", |a, v| a.output.simple_io = v.on()),
    Flag::used("--history, !--no-history", Nothing, "keep what is typed in chats in ~/.local/state/qrun/history (the default)", |a, v| a.output.history = v.on()),
    Flag::used("--completion-bash", Nothing, "print completions for bash, as `qrun completions bash`", |a, v| a.show = v.on().then_some(Show::Completions)),
    Flag::used("--help-all", Nothing, "every flag, also those that are only noted or refused", |a, v| a.show = v.on().then_some(Show::HelpAll)).shown(Output),
    Flag::used("-h, --help, --usage", Nothing, "this text", |a, v| a.show = v.on().then_some(Show::Help)).shown(Output),
    Flag::used("-V, --version", Nothing, "the version", |a, v| a.show = v.on().then_some(Show::Version)).shown(Output),
];
