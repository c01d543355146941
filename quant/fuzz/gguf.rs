//! Any bytes: the reader answers, and what it read can be looked at.
//!
//! The same walk, with seeded mutants and stable Rust, is part of the tests (tests/gguf/mutants.rs).

#![no_main]

use libfuzzer_sys::fuzz_target;
use qrun_quant::{
    Bytes, Gguf,
    gguf::{Array, Value, ValueType},
};

fuzz_target!(|data: &[u8]| {
    let Ok(gguf) = Gguf::from_bytes("fuzz", Bytes::new(data.to_vec())) else { return };
    for (key, value) in gguf.metadata() {
        assert!(gguf.get(key).is_some());
        value.describe();
        if let Value::Array(a) = value {
            walk(a);
        }
    }
    for t in gguf.tensors() {
        assert!(gguf.tensor(&t.name).is_some());
        assert_eq!(t.data.len(), t.rows() * t.ty.bytes_of(t.cols()));
        // One row through the decoder of its format.
        if t.cols() <= 4096 {
            let mut row = vec![0.0; t.cols()];
            (t.ty.format().dequantize)(&t.data[..t.ty.bytes_of(t.cols())], &mut row);
        }
    }
});

fn walk(a: &Array) {
    let n = match a.ty {
        ValueType::Str => a.strings().count(),
        ValueType::Array => a.arrays().inspect(walk).count(),
        _ => a.numbers().count(),
    };
    assert_eq!(n, a.len);
}
