//! Files of the public `gguf` Python package (tests/data/gguf/make.py) say to us what they said to it.

use std::path::Path;

use qrun_quant::{
    Gguf,
    gguf::{Array, Value, ValueType},
};
use serde_json::{Value as Json, json};

/// Metadata as JSON says it. Numbers of the file are exact in JSON's.
fn value(v: &Value) -> Json {
    match v {
        Value::F32(v) => json!(f64::from(*v)),
        Value::F64(v) => json!(v),
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => json!(signed(v)),
        Value::Bool(v) => json!(v),
        Value::Str(s) => json!(s.as_str()),
        Value::Array(a) => array(a),
        unsigned => json!(unsigned.as_u64().unwrap()),
    }
}

fn signed(v: &Value) -> i64 {
    match *v {
        Value::I8(v) => v.into(),
        Value::I16(v) => v.into(),
        Value::I32(v) => v.into(),
        Value::I64(v) => v,
        _ => panic!("{v:?} is not signed"),
    }
}

fn array(a: &Array) -> Json {
    match a.ty {
        ValueType::Str => a.strings().collect(),
        ValueType::Bool => a.numbers().map(|n| n != 0.0).collect(),
        ValueType::F32 | ValueType::F64 => a.numbers().collect(),
        _ => a.numbers().map(|n| n as i64).collect(),
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, &b| (0..8).fold(crc ^ u32::from(b), |crc, _| step(crc)))
}

#[test]
fn files_of_the_python_package() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/gguf");
    let expected: Json = serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap();
    let expected = expected.as_object().unwrap();
    assert_eq!(expected.len(), 5);
    for (file, said) in expected {
        let gguf = Gguf::open(&dir.join(file)).unwrap();
        assert_eq!(gguf.str("general.architecture").unwrap(), Some("llama"));
        for (key, want) in said["metadata"].as_object().unwrap() {
            let found = gguf.get(key).unwrap_or_else(|| panic!("{file}: no key {key}"));
            assert_eq!(&value(found), want, "{file}: {key}");
        }
        let tensors = said["tensors"].as_array().unwrap();
        assert_eq!(gguf.tensors().len(), tensors.len(), "{file}");
        for (t, want) in gguf.tensors().iter().zip(tensors) {
            let head: String = t.data.iter().take(32).map(|b| format!("{b:02x}")).collect();
            let found = json!({
                "name": t.name, "type": t.ty.name(), "shape": t.shape, "head": head, "crc32": crc32(&t.data),
            });
            assert_eq!(&found, want, "{file}");
        }
    }
}
