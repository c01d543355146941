//! Harmony, the form of gpt-oss: answers in channels, taken apart, constrained, and written by a model that has the marks
//! as control tokens.

use std::sync::Arc;

use qrun::{
    embedded,
    engine::{DevicePreference, Engine, EngineOptions},
    generate::{Finish, Request, Session},
    sampler::SamplerParams,
    text::{
        chat::{ChatRequest, Delta, ReasoningFormat, ToolChoice, channels, prepare},
        grammar::GrammarSpec,
        template::{Message, builtin},
        tokenizer::TokenKind,
    },
};
use qrun_quant::{
    Bytes, Gguf,
    gguf::{Array, write::Entry, write::Header},
};
use serde_json::json;

use super::{admits, choice, cuts, engine, read, request};

const MARKS: [&str; 7] =
    ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>"];

fn template() -> &'static str {
    builtin("harmony").expect("a built-in template")
}

/// The answer after `<|start|>assistant`, what it becomes.
#[rustfmt::skip]
const ANSWERS: &[(&str, &[&str])] = &[
    ("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes. \n", &["R:Hm.", "C:Yes. \n"]),
    ("<|channel|>final<|message|>Yes<|end|>", &["C:Yes"]),
    ("<|message|>Yes", &["C:Yes"]),
    ("<|channel|>final <|constrain|>json<|message|>{\"a\": 1}", &["C:{\"a\": 1}"]),
    // Thoughts in several messages; what is said of calls beforehand is no answer.
    ("<|channel|>analysis<|message|> One<|end|><|start|>assistant<|channel|>commentary<|message|>\nTwo<|end|><|start|>assistant<|channel|>final<|message|>3",
        &["R:One\n\nTwo", "C:3"]),
    ("<|channel|>analysis<|message|>a < b <| c<|end|>", &["R:a < b <| c"]),
    // Cut by the limit.
    ("<|channel|>analysis<|message|>Hm", &["R:Hm"]),
    ("<|channel|>analysis<|message|>", &[]),
    ("<|channel|>anal", &[]),
    ("<|channel|>analysis<|message|>Hm<|end|><|start|>assis", &["R:Hm"]),
    ("<|channel|>final<|message|>a <|en", &["C:a <|en"]),
    // Calls, the recipient behind the channel or before it.
    ("<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Rome\"}", &["0 weather", "0={\"city\": \"Rome\"}"]),
    ("<|channel|>commentary to=functions.now<|message|>{}<|call|>", &["0 now", "0={}"]),
    (" to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}", &["0 now", "0={}"]),
    ("<|channel|>analysis<|message|>Hm<|end|><|start|>assistant to=functions.weather<|channel|>commentary json<|message|>\n{\"city\":\"}\\\"{\"} \n",
        &["R:Hm", "0 weather", "0={\"city\":\"}\\\"{\"}"]),
    ("<|channel|>commentary to=functions.now<|message|>{}<|end|><|start|>assistant<|channel|>commentary to=functions.weather<|message|>{\"city\":1}",
        &["0 now", "0={}", "1 weather", "1={\"city\":1}"]),
    ("<|channel|>commentary to=functions.now<|message|>", &["0 now", "0={}"]),
    ("<|channel|>commentary to=functions.now<|message|> <|end|><|start|>assistant<|channel|>final<|message|>x", &["0 now", "0={}", "C:x"]),
    ("<|channel|>commentary to=functions.weather<|message|>{\"city\":\"Ro", &["0 weather", "0={\"city\":\"Ro"]),
    // No such tool: nobody is to read it.
    ("<|channel|>commentary to=functions.later<|message|>{}", &["R:{}"]),
    ("<|channel|>analysis to=browser.search code<|message|>{\"q\": 1}", &["R:{\"q\": 1}"]),
    // A model that does without.
    ("Hello", &["C:Hello"]),
    (" \n", &["C: \n"]),
    ("", &[]),
    ("<b>bold</b> <", &["C:<b>bold</b> <"]),
    ("to=day", &["C:to=day"]),
];

#[test]
fn channels_are_taken_apart_however_they_are_cut() {
    let parser = prepare(&engine(template()), &request()).expect("a chat").parser;
    for (answer, expected) in ANSWERS {
        for pieces in cuts(answer) {
            assert_eq!(read(&parser, pieces.iter().copied()), *expected, "{answer:?} as {pieces:?}");
        }
    }
}

#[test]
fn thoughts_and_calls_go_where_they_are_wanted() {
    let engine = engine(template());
    let said = |request: ChatRequest, answer: &str| {
        let parser = prepare(&engine, &request).expect("a chat").parser;
        let all = cuts(answer).into_iter().map(|pieces| read(&parser, pieces)).collect::<Vec<_>>();
        assert!(all.windows(2).all(|w| w[0] == w[1]), "{answer:?}: {all:?}");
        all[0].clone()
    };
    let thought = "<|channel|>analysis<|message|>Hm<|end|>";
    let answer = format!("{thought}<|start|>assistant<|channel|>final<|message|>Yes");
    let raw = ChatRequest { reasoning_format: ReasoningFormat::None, ..request() };
    assert_eq!(said(raw, &answer), [format!("C:{thought}Yes")]);
    let call = "<|channel|>commentary to=functions.now<|message|>{}";
    let without = ChatRequest { tools: Vec::new(), ..request() };
    assert_eq!(said(without.clone(), call), ["R:{}"]);
    assert_eq!(said(without, &answer), ["R:Hm", "C:Yes"]);
    // An answer that goes on is in its last message.
    let messages = vec![Message::new("user", "x"), Message::new("assistant", "The sky")];
    let on = ChatRequest { messages, continue_final_message: true, ..request() };
    assert!(prepare(&engine, &on).expect("a chat").prompt.ends_with("<|channel|>final<|message|>The sky"));
    assert_eq!(said(on, " is blue.<|end|>"), ["C: is blue."]);
    // No thoughts: they are ended before they begin.
    let quick = ChatRequest { thinking: Some(false), ..request() };
    let prompt = prepare(&engine, &quick).expect("a chat").prompt;
    assert!(
        prompt.ends_with("<|start|>assistant<|channel|>analysis<|message|><|end|><|start|>assistant"),
        "{prompt:?}"
    );
    // Where no tools are asked for, the terminal shows the same.
    let (parser, marks) = channels(&engine).expect("a parser");
    assert_eq!(read(&parser, [&*answer]), ["R:Hm", "C:Yes"]);
    assert!(marks.is_empty(), "the demo model has no such tokens");
    assert!(channels(&super::engine("<|channel|>{{ messages }}")).is_none());
}

/// Choice of tools, or a format; answers that may be given, and answers that may not.
#[rustfmt::skip]
const MAY: &[(&str, &[&str], &[&str])] = &[
    ("required", &["<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}", "<|channel|>commentary to=functions.now<|message|>{}",
        " to=functions.now<|channel|>commentary json<|message|>{}", "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary to=functions.now<|message|>{}",
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant to=functions.now<|channel|>commentary<|message|>{}"],
        &["x", "<|channel|>final<|message|>x", "<|channel|>commentary to=functions.later<|message|>{}", "<|channel|>commentary to=functions.weather<|message|>{}",
        "<|channel|>analysis<|message|>Hm<|end|>", "<|channel|>commentary<|message|>{}"]),
    ("auto", &["x", "<|channel|>final<|message|>to=functions.", "<|channel|>analysis<|message|><|channel|>commentary to=functions.x<|end|>", "<|channel|>commentary to=functions.now<|message|>{}",
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant to=functions.now<|channel|>commentary<|message|>{}"],
        &["<|channel|>commentary to=functions.later<|message|>{}", "<|channel|>commentary to=functions.now<|message|>x",
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary to=functions.now<|message|>[]", "to=functions.now<|message|>{}"]),
    ("format", &["<|channel|>final<|message|>12", "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>12"],
        &["12", "<|channel|>final<|message|>x", "<|channel|>analysis<|message|>Hm<|end|>12", "<|channel|>analysis<|message|>12"]),
];

#[test]
fn calls_and_formats_obey_their_grammar() {
    let engine = engine(template());
    for (how, good, bad) in MAY {
        let format = Some(GrammarSpec::JsonSchema(json!({"type": "integer"})));
        let request = match *how {
            "format" => ChatRequest { tools: Vec::new(), format, ..request() },
            how => ChatRequest { tool_choice: choice(how), ..request() },
        };
        let mask = prepare(&engine, &request).expect(how).mask.expect("a mask");
        for text in *good {
            assert_eq!(admits(&mask, engine.tokenizer(), text), Ok(()), "{how}: {text:?}");
        }
        for text in *bad {
            assert!(admits(&mask, engine.tokenizer(), text).is_err(), "{how}: {text:?}");
        }
    }
}

/// The demo model with marks as control tokens in place of its last tokens, and no template of its own.
pub fn with_marks(marks: &[&str], template: Option<&str>) -> Arc<Engine> {
    let file = Gguf::from_bytes("demo", Bytes::new(embedded::model().expect("a model").to_vec())).expect("a model");
    let array = |key: &str| file.array(&format!("tokenizer.ggml.{key}")).expect("an array").expect("a key");
    let mut tokens: Vec<String> = array("tokens").strings().map(str::to_owned).collect();
    let mut types: Vec<i32> = array("token_type").numbers().map(|n| n as i32).collect();
    let from = tokens.len() - marks.len();
    // Or it would be known as another family.
    tokens.iter_mut().filter(|token| *token == "<start_of_turn>").for_each(|token| *token = "<gone>".into());
    for (i, mark) in marks.iter().enumerate() {
        (tokens[from + i], types[from + i]) = ((*mark).to_owned(), 3);
    }
    let mut header = Header { metadata: file.metadata().to_vec(), ..Header::new() };
    header.metadata.retain(|(key, _)| key != "tokenizer.chat_template" && key != "tokenizer.ggml.eot_token_id");
    header.set("tokenizer.ggml.tokens", Array::of_strings(&tokens));
    header.set("tokenizer.ggml.token_type", Array::of(&types));
    header.tensors = file.tensors().iter().map(Entry::from).collect();
    let mut bytes = Vec::new();
    let mut writer = header.write_to("demo".as_ref(), &mut bytes).expect("a header");
    file.tensors().iter().for_each(|tensor| writer.write(&tensor.data).expect("written"));
    writer.finish().expect("a file");
    let model = Gguf::from_bytes("demo", Bytes::new(bytes)).expect("a model");
    let template = template.map(String::from);
    let options = EngineOptions { template, device: DevicePreference::Cpu, ..EngineOptions::default() };
    Arc::new(Engine::open(model, options).expect("an engine"))
}

#[test]
fn a_model_with_the_marks_calls_a_tool() {
    let engine = with_marks(&MARKS, None);
    assert_eq!(engine.template().expect("a template").expect("one by the vocabulary").name(), "harmony");
    let tokenizer = engine.tokenizer();
    let ids = MARKS.map(|mark| tokenizer.find(mark).expect("a token"));
    assert!(ids.iter().all(|&id| tokenizer.kind(id) == TokenKind::Control && tokenizer.piece(id).is_empty()));
    let [.., end, done, call] = ids;
    assert!(tokenizer.is_eog(done) && tokenizer.is_eog(call) && !tokenizer.is_eog(end));
    // A word of the user is no mark.
    let plain = tokenizer.encode("<|end|>", qrun::text::tokenizer::Encode::PLAIN).expect("tokens");
    assert!(!plain.contains(&end));

    let chat = ChatRequest { tool_choice: ToolChoice::Required, thinking: Some(false), ..request() };
    let prepared = prepare(&engine, &chat).expect("a chat");
    assert_eq!(prepared.marks.iter().filter(|id| ids.contains(id)).count(), 5, "{:?}", prepared.marks);
    let prompt = engine.prompt(&prepared.prompt).expect("tokens");
    assert!(prompt.contains(&end));
    for seed in 0..4 {
        let params = SamplerParams { seed, temperature: 1.0, ..SamplerParams::default() };
        let mut session = Session::open(engine.clone(), params, Box::new(|_| ())).expect("threads");
        let (mask, marks) = (prepared.mask.clone(), prepared.marks.clone());
        let request = Request { prompt: prompt.clone(), mask, marks, max_tokens: Some(300), ..Request::default() };
        let reply = session.generate(&request, &mut |_| std::ops::ControlFlow::Continue(())).expect("a reply");
        let mut parser = prepared.parser.clone();
        let mut deltas = parser.push(&reply.text);
        deltas.extend(parser.finish());
        assert!(matches!(&deltas[0], Delta::ToolCall { index: 0, .. }), "{:?}", reply.text);
        assert!(deltas[1..].iter().all(|d| matches!(d, Delta::Arguments { .. })), "{:?}", reply.text);
        assert!(reply.finish == Finish::Eos || reply.tokens.len() == 300, "{:?}", reply.finish);
    }
}
