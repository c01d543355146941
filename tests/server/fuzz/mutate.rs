//! Requests that no client would send, made from those that clients send: the same number gives the same request.

use serde_json::{Value, json};

use crate::tiny::Rng;

/// A request as it goes over the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub method: String,
    pub path: String,
    pub content_type: Vec<u8>,
    pub body: Vec<u8>,
    /// The body goes in chunks of so many bytes; 0: at once, with its length.
    pub chunk: usize,
}

/// Texts that mean something to somebody on the way.
const TEXTS: &[&str] = &[
    "",
    "\0",
    "a\r\nb",
    "😀",
    "\u{feff}",
    "\u{202e}x",
    "<|im_start|>system\n",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "{% for",
    "{{ x }}",
    "[TOOL_CALLS]",
    "</s>",
    "null",
    "-1",
    "1e9",
    "../../etc/passwd",
    "%s%n",
    "auto",
    "json_schema",
    "text",
    "tool",
    "assistant",
    "root ::= root",
    "root ::= [^",
    "(((((((((((((",
    "a{1,99999}",
    "$ref",
    "data: [DONE]\n\n",
    "e\u{301}\u{301}\u{301}",
];
/// Numbers at the ends of types.
const NUMBERS: &[f64] = &[0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, -1e308, 1e308, 2147483648.0, 4294967296.0, 9.1e15, 1e19];
/// Schemas and grammars ask for work: these ask for much.
const SCHEMAS: &[&str] = &[
    r##"{"$ref":"#"}"##,
    r##"{"$ref":"#/nowhere"}"##,
    r#"{"$ref":"https://example.com/s"}"#,
    r#"{"type":"string","pattern":"((a*)*)*$"}"#,
    r#"{"type":"string","pattern":"(?=x)["}"#,
    r#"{"type":"string","minLength":100000,"maxLength":1}"#,
    r#"{"type":"array","minItems":4294967296}"#,
    r#"{"allOf":[{"type":"string"},{"type":"integer"}]}"#,
    r#"{"enum":[]}"#,
    r#"{"type":"integer","multipleOf":0}"#,
    r#"{"type":"number","minimum":1e308,"maximum":-1e308}"#,
    r#"{"not":{}}"#,
    r#"{"oneOf":[{},{}]}"#,
    r#"{"properties":{"a":{"patternProperties":{"(":{}}}}}"#,
    r#"{"type":["string",5]}"#,
    r#"{"format":"date-time","type":"string"}"#,
];
/// What no JSON writer writes.
const RAW: &[&str] = &[
    "1e999",
    "-1e999",
    "01",
    "+1",
    "0x10",
    "NaN",
    "Infinity",
    "\"\\ud800\"",
    "\"\\x\"",
    "'a'",
    "undefined",
    "18446744073709551616",
    "-9223372036854775809",
    "1e",
    "\"\u{1}\"",
    "/**/1",
];
const TYPES: &[&str] = &[
    "application/json",
    "application/json; charset=utf-16",
    "text/plain",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "",
    "\u{e9}",
    "x",
];
const METHODS: &[&str] = &["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW", "get"];

/// Request number `i`.
pub fn case(bodies: &[Value], i: usize) -> Case {
    let rng = &mut Rng::new(&format!("request {i}"));
    let of = pick(rng, bodies);
    let mut tree = of["body"].clone();
    // Some go as they are: what is right must stay right among all that is wrong.
    let times = [0, 1, 1, 1, 2, 3, 8][rng.below(7)];
    for _ in 0..times {
        change(&mut tree, bodies, rng);
    }
    let mut body = tree.to_string().into_bytes();
    if rng.below(3) == 0 {
        damage(&mut body, &tree, rng);
    }
    let odd = |rng: &mut Rng| rng.below(12) == 0;
    let text = |value: &Value, or: &str| value.as_str().unwrap_or(or).to_owned();
    let mut path = text(&of["path"], "/");
    if odd(rng) {
        let mut other = text(&pick(rng, bodies)["path"], "/");
        match rng.below(8) {
            0 => other.push('/'),
            1 => other.push_str("?a=%00&fail_on_no_slot=%ff&&=&a[]=1"),
            2 => other.push_str("%00"),
            3 => other = format!("/{other}"),
            4 => other = "/v1/models/%ff%fe".into(),
            5 => other.push_str(&"/x".repeat(2000)),
            _ => {}
        }
        path = other;
    }
    // Larger ones are refused while they are sent: whether the answer can still be read is not ours.
    body.truncate(1 << 20);
    Case {
        method: if odd(rng) { (*pick(rng, METHODS)).into() } else { text(&of["method"], "POST") },
        path,
        content_type: if odd(rng) { pick(rng, TYPES).as_bytes().to_vec() } else { b"application/json".to_vec() },
        chunk: if odd(rng) { 1 + rng.below(3000) } else { 0 },
        body,
    }
}

fn pick<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.below(list.len())]
}

/// Places of all values below one, as JSON pointers.
fn places(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => list.iter().enumerate().for_each(|(i, value)| places(value, format!("{at}/{i}"), found)),
        _ => {}
    }
    found.push(at);
}

/// Somewhere in a tree.
fn place(tree: &Value, rng: &mut Rng) -> String {
    let mut found = Vec::new();
    places(tree, String::new(), &mut found);
    // The whole stands last: it is taken as rarely as each of its parts.
    found.swap_remove(rng.below(found.len()))
}

/// A value of any kind.
fn value(bodies: &[Value], rng: &mut Rng) -> Value {
    match rng.below(10) {
        0 => Value::Null,
        1 => (rng.below(2) == 0).into(),
        2 => json!(pick(rng, NUMBERS)),
        3 => json!(pick(rng, &[0_i64, 1, -1, 2, -2, 17, 1 << 31, i64::MAX, i64::MIN])),
        4 => json!(u64::MAX),
        5 => json!(pick(rng, TEXTS)),
        6 => json!([]),
        7 => json!({}),
        8 => serde_json::from_str(pick::<&str>(rng, SCHEMAS)).expect("a schema"),
        _ => {
            let other = &pick(rng, bodies)["body"];
            other.pointer(&place(other, rng)).cloned().unwrap_or_default()
        }
    }
}

/// One change somewhere in a tree.
fn change(tree: &mut Value, bodies: &[Value], rng: &mut Rng) {
    let at = place(tree, rng);
    let (other, new) = (place(tree, rng), value(bodies, rng));
    let moved = tree.pointer(&other).cloned().unwrap_or_default();
    let (parent, key) = at.rsplit_once('/').map_or(("", ""), |(parent, key)| (parent, key));
    let key = key.replace("~1", "/").replace("~0", "~");
    let name = if rng.below(2) == 0 { (*pick(rng, TEXTS)).to_owned() } else { key.to_uppercase() };
    match rng.below(9) {
        0 | 1 => put(tree, &at, new),
        // A field leaves, or takes another name.
        2 => match tree.pointer_mut(parent) {
            Some(Value::Object(map)) => drop(map.shift_remove(&key)),
            Some(Value::Array(list)) => drop(list.pop()),
            _ => {}
        },
        3 => {
            if let Some(Value::Object(map)) = tree.pointer_mut(parent) {
                let value = map.shift_remove(&key).unwrap_or_default();
                map.insert(name, value);
            }
        }
        4 => put(tree, &at, moved),
        // Many of it, or deep inside of others.
        5 => put(tree, &at, Value::Array(vec![moved; *pick(rng, &[2, 3, 17, 65, 129, 1025])])),
        6 => {
            let deep = (0..*pick(rng, &[1, 2, 100, 126, 127, 128, 129, 300])).fold(moved, |inner, i| match i % 2 {
                0 => json!([inner]),
                _ => json!({ "a": inner }),
            });
            put(tree, &at, deep);
        }
        7 => {
            if let Some(Value::String(text)) = tree.pointer_mut(&at) {
                let long = pick(rng, TEXTS).repeat(*pick(rng, &[1, 1, 2, 100, 4000]));
                let middle = (0..=text.len() / 2).rfind(|&i| text.is_char_boundary(i)).unwrap_or(0);
                text.insert_str(middle, &long);
            }
        }
        _ => {
            if let Some(number @ Value::Number(_)) = tree.pointer_mut(&at) {
                let x = number.as_f64().unwrap_or(0.0);
                *number = json!(pick(rng, &[-x, x * 1e9, x + 0.5, x - 1.0, x / 3.0]));
            }
        }
    }
}

fn put(tree: &mut Value, at: &str, new: Value) {
    if let Some(place) = tree.pointer_mut(at) {
        *place = new;
    }
}

/// Bytes that are no longer what a JSON writer wrote.
fn damage(body: &mut Vec<u8>, tree: &Value, rng: &mut Rng) {
    let at = rng.below(body.len().max(1)).min(body.len());
    match rng.below(9) {
        0 => {
            for _ in 0..=rng.below(8) {
                let (i, bit) = (rng.below(body.len().max(1)), rng.below(8));
                body.get_mut(i).into_iter().for_each(|byte| *byte ^= 1 << bit);
            }
        }
        1 => body.truncate(at),
        2 => drop(
            body.splice(
                at..at,
                pick(rng, &[&b"\0"[..], b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf"])
                    .to_vec(),
            ),
        ),
        3 => drop(body.drain(at..(at + rng.below(40)).min(body.len()))),
        4 => drop(body.splice(at..at, body[at..(at + rng.below(200)).min(body.len())].to_vec())),
        // A name twice in an object, with another value.
        5 => {
            if let Some(name) = tree.as_object().and_then(|map| map.keys().nth(rng.below(map.len().max(1)))) {
                let twice = format!("{{{}:{},", json!(name), pick(rng, RAW));
                body.splice(..1, twice.into_bytes());
            }
        }
        // The value of a name is none.
        6 => {
            if let Some(colon) = (at..body.len()).find(|&i| body[i] == b':') {
                let end = (colon..body.len()).find(|&i| matches!(body[i], b',' | b'}')).unwrap_or(body.len());
                body.splice(colon + 1..end, pick(rng, RAW).bytes());
            }
        }
        7 => {
            let n = *pick(rng, &[127, 128, 129, 1000, 100_000]);
            let (open, close) = *pick(
                rng,
                &[("[", "]"), ("{\"a\":", "}"), ("{\"prompt\":[", "]}"), ("[{", ""), ("{\"messages\":[[", "")],
            );
            *body = (open.repeat(n) + "1" + &close.repeat(n)).into_bytes();
        }
        _ => {
            let long = "long ".repeat(*pick(rng, &[200, 2000, 20_000, 200_000]));
            let name = pick(rng, &["content", "prompt", "input", "messages", "grammar", "stop", "model", "system"]);
            let field = format!("{{\"{name}\":\"{long}\",");
            body.splice(..1, field.into_bytes());
        }
    }
}
