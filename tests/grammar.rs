//! Grammars: what they let through, token by token, and what is no grammar.

use std::sync::OnceLock;

use qrun::{
    embedded,
    sampler::TokenMask,
    text::grammar::{GrammarError, GrammarSpec, Grammars, MAX_GRAMMAR, MAX_SCHEMA, Thoughts, Trigger},
    text::tokenizer::Tokenizer,
};
use qrun_quant::{Bytes, Gguf};
use serde_json::{Value, json};

use crate::chat::admits;

/// The demo model's vocabulary, ready for grammars.
fn vocabulary() -> &'static (Tokenizer, Grammars) {
    static ONCE: OnceLock<(Tokenizer, Grammars)> = OnceLock::new();
    ONCE.get_or_init(|| {
        let bytes = embedded::model().expect("a model").to_vec();
        let tokenizer = Tokenizer::from_gguf(&Gguf::from_bytes("demo", Bytes::new(bytes)).expect("a model"));
        let tokenizer = tokenizer.expect("a tokenizer");
        let grammars = Grammars::new(&tokenizer).expect("grammars");
        (tokenizer, grammars)
    })
}

fn compile(spec: &GrammarSpec) -> Result<TokenMask, GrammarError> {
    vocabulary().1.compile(spec)
}

fn check(what: &str, spec: &GrammarSpec, good: &[&str], bad: &[&str]) {
    let mask = compile(spec).unwrap_or_else(|error| panic!("{what}: {error}"));
    let tokenizer = &vocabulary().0;
    for text in good {
        assert_eq!(admits(&mask, tokenizer, text), Ok(()), "{what} has {text:?}");
    }
    for text in bad {
        assert!(admits(&mask, tokenizer, text).is_err(), "{what} does not have {text:?}");
    }
}

/// Schema, texts it has, texts it does not have.
#[rustfmt::skip]
const SCHEMAS: &[(&str, &[&str], &[&str])] = &[
    (r#"{}"#, &["1", "\"a\"", "null", "[true]", "{\"a\": {}}"], &["a", "", "{", "1 1"]),
    (r#"{"type": "object"}"#, &["{}", "{\"a\": [1]}"], &["[]", "1"]),
    (r#"{"type": "integer"}"#, &["0", "-12"], &["1.5", "01", "x", ""]),
    (r#"{"type": "number"}"#, &["0", "-1.5", "2e9"], &["1.", ".5", "\"1\""]),
    (r#"{"type": "integer", "minimum": 3, "maximum": 12}"#, &["3", "12"], &["2", "13", "-3"]),
    (r#"{"type": "integer", "exclusiveMinimum": 3}"#, &["4"], &["3"]),
    (r#"{"type": "boolean"}"#, &["true", "false"], &["True", "1"]),
    (r#"{"type": "null"}"#, &["null"], &["0"]),
    (r#"{"type": "string"}"#, &["\"\"", "\"a\\n\\u00e9\"", "\"é\""], &["\"", "\"\n\"", "a"]),
    (r#"{"type": "string", "minLength": 2, "maxLength": 3}"#, &["\"ab\"", "\"abc\""], &["\"a\"", "\"abcd\""]),
    (r#"{"type": "string", "pattern": "^a+[0-9]$"}"#, &["\"aa1\""], &["\"1\"", "\"a\"", "\"a11\""]),
    (r#"{"type": "string", "format": "date"}"#, &["\"2024-02-29\""], &["\"yesterday\"", "\"2024-2-9\""]),
    (r#"{"type": "string", "format": "uuid"}"#, &["\"123e4567-e89b-12d3-a456-426614174000\""], &["\"123\""]),
    (r#"{"enum": ["red", 1, null]}"#, &["\"red\"", "1", "null"], &["\"blue\"", "2"]),
    (r#"{"const": {"a": 1}}"#, &["{\"a\": 1}", "{\"a\":1}"], &["{\"a\": 2}", "{}"]),
    (r#"{"type": ["string", "null"]}"#, &["\"a\"", "null"], &["1"]),
    (r#"{"type": "array", "items": {"type": "integer"}}"#, &["[]", "[1, 2]"], &["[\"a\"]", "[1,]"]),
    (r#"{"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}"#, &["[1]", "[1,2]"], &["[]", "[1,2,3]"]),
    (r#"{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false}"#, &["[1, \"a\"]"], &["[\"a\", 1]", "[1, \"a\", 2]"]),
    (r#"{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}"#, &["{\"a\": 1}", "{\"a\":1,\"b\":2}"], &["{}", "{\"a\": \"1\"}"]),
    (r#"{"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "additionalProperties": false}"#,
        &["{}", "{\"a\": 1}", "{\"b\": []}", "{\"a\": 1, \"b\": 2}"], &["{\"c\": 1}"]),
    (r#"{"type": "object", "additionalProperties": {"type": "boolean"}}"#, &["{\"x\": true}"], &["{\"x\": 1}"]),
    (r#"{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"const": 1}}, "required": ["b"], "additionalProperties": false}}, "required": ["a"]}"#,
        &["{\"a\": {\"b\": 1}}", "{\n    \"a\": {\n        \"b\": 1\n    }\n}"], &["{\"a\": {}}", "{\"a\": {\"b\": 1, \"c\": 1}}"]),
    (r#"{"anyOf": [{"type": "integer"}, {"type": "boolean"}]}"#, &["1", "true"], &["\"a\""]),
    (r#"{"oneOf": [{"type": "integer"}, {"type": "string"}]}"#, &["1", "\"a\""], &["true"]),
    (r#"{"allOf": [{"type": "integer"}, {"minimum": 5}]}"#, &["5"], &["4"]),
    (r##"{"$ref": "#/$defs/x", "$defs": {"x": {"type": "boolean"}}}"##, &["true"], &["1"]),
    (r##"{"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": {"type": "boolean"}}}"##, &["true"], &["1"]),
    (r##"{"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": false}"##, &["{}", "{\"next\": {\"next\": {}}}"], &["{\"next\": 1}"]),
    (r##"{"$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"}"##, &["[]", "[[], [[]]]"], &["[1]", "[[]"]),
    (r#"{"title": "T", "description": "d", "default": 1, "examples": [2], "type": "integer"}"#, &["1"], &["true"]),
];

#[test]
fn schemas_describe_their_texts() {
    for (schema, good, bad) in SCHEMAS {
        let value: Value = serde_json::from_str(schema).expect(schema);
        check(schema, &GrammarSpec::JsonSchema(value), good, bad);
    }
    check("an object", &GrammarSpec::JsonObject, &["{}", "{\"a\": [1, {\"b\": null}]}"], &["[]", "1", "{", "text", ""]);
    // A little white space, never without end.
    check("an object", &GrammarSpec::JsonObject, &["{ }", "{\n  \"a\" : 1\n}"], &["{   }", "{\n\n\n}"]);
}

/// What cannot be expressed, and a word that the error has to say.
#[test]
fn a_schema_that_cannot_be_kept_is_an_error() {
    let cases = [
        (json!({"type": "thing"}), "thing"),
        (json!({"$ref": "http://example.com/schema"}), "http://example.com/schema"),
        (json!({"$ref": "#/$defs/none"}), "none"),
        (json!({"not": {"type": "string"}}), "not"),
        (json!({"type": "array", "uniqueItems": true}), "uniqueItems"),
        (json!({"if": {"type": "string"}, "then": {}}), "if"),
        (json!({"type": "string", "format": "colour"}), "colour"),
        (json!({"type": "string", "pattern": "("}), "("),
        (json!({"type": "string", "pattern": "a(?=b)"}), "(?="),
        (json!({"type": "integer", "minimum": 5, "maximum": 4}), "minimum"),
        (json!(false), "false"),
        (json!("a text"), "a text"),
        (json!([1]), "[1]"),
    ];
    for (schema, word) in cases {
        let error = compile(&GrammarSpec::JsonSchema(schema.clone())).expect_err(&schema.to_string()).to_string();
        assert!(error.contains(word), "{schema}: {error:?} says {word:?}");
    }
    let long = json!({"const": "x".repeat(MAX_SCHEMA)});
    assert!(matches!(compile(&GrammarSpec::JsonSchema(long)), Err(GrammarError::TooLong { most: MAX_SCHEMA, .. })));
}

/// GBNF, texts it has, texts it does not have.
#[rustfmt::skip]
const GRAMMARS: &[(&str, &[&str], &[&str])] = &[
    // Texts, sequences, alternatives, groups.
    (r#"root ::= "yes""#, &["yes"], &["no", "ye", "yess", ""]),
    (r#"root ::= "a" "b" | "c""#, &["ab", "c"], &["a", "abc", "ac"]),
    (r#"root ::= "a" ("b" | "c") "d""#, &["abd", "acd"], &["ad", "abcd"]),
    (r#"root ::= "a" ("b" ("c" | "d"))?"#, &["a", "abc", "abd"], &["ab"]),
    (r#"root ::= """#, &[""], &["a"]),
    (r#"root ::= "a" | "#, &["a", ""], &["b"]),
    // Sets.
    (r#"root ::= [a-c]"#, &["a", "c"], &["d", "A", "ab"]),
    (r#"root ::= [a-cx0-9_]"#, &["b", "x", "7", "_"], &["d", "y"]),
    (r#"root ::= [^a-c]"#, &["d", "é", "\n"], &["a", "b"]),
    (r#"root ::= [a-]"#, &["a", "-"], &["b"]),
    (r#"root ::= [\]\[\\"^]"#, &["]", "[", "\\", "\"", "^"], &["a"]),
    (r#"root ::= [\x41-\x43\u00e9\U0001F600]"#, &["A", "C", "é", "😀"], &["D", "e"]),
    (r#"root ::= ."#, &["a", "é", "\n", "/"], &["", "ab"]),
    (r#"root ::= [/.*+?(){}|]{2}"#, &["/.", "*+", "?(", "){", "}|"], &["/a"]),
    // Escapes in texts.
    (r#"root ::= "\"\\\n\t\r\[\]""#, &["\"\\\n\t\r[]"], &["\"\\nt"]),
    (r#"root ::= "\x41\u00e9\U0001F600""#, &["Aé😀"], &["Ae😀"]),
    // Repetitions.
    (r#"root ::= "a"*"#, &["", "aaa"], &["b", "ab"]),
    (r#"root ::= "a"+"#, &["a", "aa"], &[""]),
    (r#"root ::= "a"? "b""#, &["b", "ab"], &["aab"]),
    (r#"root ::= "a"{2}"#, &["aa"], &["a", "aaa"]),
    (r#"root ::= "a"{2,}"#, &["aa", "aaaaa"], &["a"]),
    (r#"root ::= "ab"{1,2}"#, &["ab", "abab"], &["", "ababab", "aba"]),
    (r#"root ::= ("a" | "b"){0,2} "c""#, &["c", "abc"], &["abac"]),
    (r#"root ::= "a"{0} "b""#, &["b"], &["ab"]),
    // Rules, comments, lines.
    ("root ::= item (\", \" item)* # a list\n# nothing here\nitem ::= [0-9]+", &["1", "1, 22"], &["1,", ", 1"]),
    ("root ::= (\n  \"a\" # one\n  | \"b\"\n)", &["a", "b"], &["ab"]),
    ("root ::=\n  \"a\" |\n  \"b\"\n\n", &["a", "b"], &["c"]),
    ("root ::= \"a\"\n  | \"b\"\r\n", &["a", "b"], &["c"]),
    ("b-1 ::= \"x\"\nroot ::= b-1 b-1", &["xx"], &["x"]),
    // Recursion.
    (r#"root ::= "(" root ")" | "x""#, &["x", "((x))"], &["(x", "()"]),
    (r#"root ::= "(" root ")" root | """#, &["", "()", "(())()"], &["(", "())"]),
    ("root ::= root \"+\" n | n\nn ::= [0-9]+", &["1", "1+22+3"], &["1+", "+1", ""]),
    ("root ::= \"a\" b\nb ::= \"b\" root | \"c\"", &["ac", "abac"], &["ab", "a"]),
    // Cut into lexemes the longest first, these would lose a text.
    ("root ::= a b | \"(\" root \")\"\na ::= \"a\" | \"ab\"\nb ::= \"c\" | \"bd\"", &["ac", "abc", "abd", "(abbd)"], &["ab", "(abd"]),
    ("root ::= \"<\" root \">\" | [a-z]+ [a-f]+", &["ab", "<zaf>"], &["a", "az", "<>"]),
    ("root ::= x \"a\" | \"[\" root \"]\"\nx ::= \"a\"*", &["a", "aaa", "[[aa]]"], &["", "[]", "ab"]),
    ("root ::= k v | \"{\" root \"}\"\nk ::= \"tru\" | \"true\"\nv ::= \"e!\" | \"!\"", &["true!", "truee!", "{tru!}"], &["tru", "true"]),
];

#[test]
fn gbnf_has_the_texts_of_llama_cpp() {
    for (grammar, good, bad) in GRAMMARS {
        check(grammar, &GrammarSpec::Gbnf((*grammar).into()), good, bad);
    }
}

#[test]
fn a_json_grammar_of_gbnf_reads_json() {
    let grammar = r#"root ::= object
        value ::= object | array | string | number | ("true" | "false" | "null") ws
        object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
        array ::= "[" ws ( value ("," ws value)* )? "]" ws
        string ::= "\"" ( [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
        number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
        ws ::= | " " | "\n" [ \t]{0,20}"#;
    let lines: Vec<&str> = grammar.lines().map(str::trim).collect();
    let good = ["{}", "{\"a\": [1, -2.5e3, \"x\\u00e9\\\"é\", {\"b\":null}], \"c\": true}\n", "{\n  \"a\": []}"];
    let bad = ["[]", "{\"a\": [1, }", "{\"a\" 1}", "{\"a\": 01}", "{\"a\": \"\n\"}", "{\"a\": tru}", "{", "{}}"];
    check("JSON", &GrammarSpec::Gbnf(lines.join("\n")), &good, &bad);
}

/// What is no grammar: the line, and a word that the error has to say.
#[test]
fn what_is_no_gbnf_is_an_error_with_its_line() {
    #[rustfmt::skip]
    let cases = [
        ("", 1, "root"),
        ("start ::= \"a\"", 1, "root"),
        ("root ::= a", 1, "\"a\" is not defined"),
        ("root ::= \"a\"\nb ::= c", 2, "\"c\" is not defined"),
        ("root ::= \"a\"\nroot ::= \"b\"", 2, "twice"),
        ("root \"a\"", 1, "::="),
        ("root ::= \"a", 1, "end of a text"),
        ("root ::= \"a\n\"", 1, "end of a text"),
        ("root ::= [a", 1, "end of a set"),
        ("root ::= []", 1, "at least one"),
        ("root ::= [z-a]", 1, "from a lower"),
        ("root ::= (\"a\"", 1, "\")\""),
        ("root ::= \"a\")", 1, "end of the line"),
        ("root ::= \"\\q\"", 1, "escape"),
        ("root ::= \"\\x4\"", 1, "hexadecimal"),
        ("root ::= \"\\ud800\"", 1, "hexadecimal"),
        ("root ::= \"\\U00110000\"", 1, "hexadecimal"),
        ("root ::= \"a\"{", 1, "count"),
        ("root ::= \"a\"{x}", 1, "count"),
        ("root ::= \"a\"{3,2}", 1, "not below"),
        ("root ::= \"a\"{1", 1, "}"),
        ("root ::= \"a\"{999999999999}", 1, "count"),
        ("root ::= *", 1, "end of the line"),
        ("root ::= <[1000]>", 1, "end of the line"),
        ("\n\nroot ::= 'a'", 3, "end of the line"),
    ];
    for (grammar, line, word) in cases {
        match compile(&GrammarSpec::Gbnf(grammar.into())).expect_err(grammar) {
            GrammarError::Gbnf { line: found, detail } => {
                assert!(found == line && detail.contains(word), "{grammar:?}: line {found}: {detail}");
            }
            other => panic!("{grammar:?}: {other}"),
        }
    }
    // A language without texts, nesting and sizes without end.
    let deep = format!("root ::= {}\"a\"{}", "(".repeat(1000), ")".repeat(1000));
    let twice: String = (0..40).map(|i| format!("r{i} ::= r{} r{}\n", i + 1, i + 1)).collect();
    let twice = format!("root ::= r0\n{twice}r40 ::= \"a\"");
    for grammar in ["root ::= root".into(), "root ::= \"a\" root".into(), deep, twice] {
        assert!(compile(&GrammarSpec::Gbnf(grammar.clone())).is_err(), "{:.80}", grammar);
    }
    let long = format!("root ::= \"{}\"", "a".repeat(MAX_GRAMMAR));
    assert!(matches!(compile(&GrammarSpec::Gbnf(long)), Err(GrammarError::TooLong { most: MAX_GRAMMAR, .. })));
}

#[test]
fn grammars_are_put_together() {
    let json = |schema: Value| GrammarSpec::JsonSchema(schema);
    let either =
        GrammarSpec::Either(vec![json(json!({"type": "integer"})), GrammarSpec::Gbnf("root ::= \"x\"+".into())]);
    check("either", &either, &["1", "xx"], &["1x", "", "true"]);
    let thoughts = |opened| Thoughts { open: "<t>".into(), close: "</t>".into(), next: String::new(), opened };
    let after = |opened| GrammarSpec::AfterThoughts { thoughts: thoughts(opened), grammar: Box::new(either.clone()) };
    check("after", &after(false), &["1", "<t>a </t>1", "<t></t>\n\nx"], &["<t>a", "a</t>1", "<t>a</t>", "<t>a</t>b"]);
    check("in", &after(true), &["a</t>1", "</t>\nx"], &["1", "a", "a</t>b"]);
    let next = Thoughts { next: "<n>go".into(), ..thoughts(false) };
    let then = GrammarSpec::After { marks: "<f>end<m>".into(), grammar: Box::new(either.clone()) };
    let after = GrammarSpec::AfterThoughts { thoughts: next, grammar: Box::new(then) };
    let bad = ["1", "<t>a</t>1", "<t>a</t><f>end<m>1", "<n>go<f>end<m>1", "<t>a</t><n>go<f>end<m>b"];
    check("marks", &after, &["<f>end<m>1", "<t>a</t><n>go<f>end<m>xx"], &bad);
    let lazy = |opened| GrammarSpec::Lazy {
        grammar: Box::new(GrammarSpec::Gbnf("root ::= \"!call \" [0-9] | \"{\" \" \"? \"x\" [0-9] \"}\"".into())),
        triggers: vec![Trigger::Word("!call".into()), Trigger::Start("{x".into())],
        thoughts: Some(thoughts(opened)),
    };
    let good = ["free", "", "a !cal", "a !call 1", "{x1}", "{ x1}", "<t>!call x</t>!call 1", "a {xy", "<t>!call", "{y"];
    check("lazy", &lazy(false), &good, &["a !call x", "!call 12", "{x}", "<t></t>!call x", "!call", "<t>a</t>{xx"]);
    check("lazy", &lazy(true), &["!call x", "!call x</t> !call 1", "<t>"], &["</t>!call x"]);
    let nested = GrammarSpec::Either(vec![lazy(false)]);
    assert!(matches!(compile(&nested), Err(GrammarError::Compile(_))));
}

#[test]
fn a_copy_goes_on_by_itself() {
    let mut mask = compile(&GrammarSpec::Gbnf("root ::= \"ab\" | \"cd\"".into())).expect("a grammar");
    let tokenizer = &vocabulary().0;
    let token = |text: &str| tokenizer.find(text).expect("a token");
    let before = mask.clone();
    mask.accept(token("a")).expect("a fits");
    let mut copy = mask.clone();
    copy.accept(token("b")).expect("b fits");
    let error = copy.accept(token("b")).expect_err("nothing follows");
    assert!(!error.contains("<non-verbose/>"), "{error:?}");
    assert_eq!(admits(&before, tokenizer, "cd"), Ok(()));
    assert_eq!(admits(&mask, tokenizer, "b"), Ok(()));
    assert!(admits(&mask, tokenizer, "d").is_err());
}
