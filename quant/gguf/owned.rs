//! Values made in memory, in the layout of a file: what the writer puts down is what the reader holds.

use super::{Array, Text, Value, ValueType};
use crate::Bytes;

/// A number or bool that metadata can hold.
pub trait Scalar: Copy + Into<Value> {
    /// Its type in the file.
    const TYPE: ValueType;
    /// Appends its bytes.
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! scalars {
    ($($rust:ty, $variant:ident;)*) => {$(
        impl From<$rust> for Value {
            fn from(v: $rust) -> Self {
                Value::$variant(v)
            }
        }
        impl Scalar for $rust {
            const TYPE: ValueType = ValueType::$variant;
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
scalars! { u8, U8; i8, I8; u16, U16; i16, I16; u32, U32; i32, I32; u64, U64; i64, I64; f32, F32; f64, F64; }

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Value::Bool(v)
    }
}
impl Scalar for bool {
    const TYPE: ValueType = ValueType::Bool;
    fn put(self, out: &mut Vec<u8>) {
        out.push(self.into());
    }
}
impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Value::Str(Text(Bytes::new(v.to_owned())))
    }
}
impl From<String> for Value {
    fn from(v: String) -> Self {
        Value::Str(Text(Bytes::new(v)))
    }
}
impl From<Array> for Value {
    fn from(v: Array) -> Self {
        Value::Array(v)
    }
}

impl Array {
    /// An array of numbers or bools.
    pub fn of<T: Scalar>(values: &[T]) -> Self {
        let mut bytes = Vec::with_capacity(values.len() * T::TYPE.size());
        values.iter().for_each(|v| v.put(&mut bytes));
        Self { ty: T::TYPE, len: values.len(), bytes: Bytes::new(bytes) }
    }

    /// An array of strings, each behind its length.
    pub fn of_strings<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Self {
        let (mut bytes, mut len) = (Vec::new(), 0);
        for v in values {
            put_str(&mut bytes, v.as_ref());
            len += 1;
        }
        Self { ty: ValueType::Str, len, bytes: Bytes::new(bytes) }
    }

    /// An array of arrays, which may have elements of different types.
    pub fn of_arrays(values: &[Array]) -> Self {
        let mut bytes = Vec::new();
        values.iter().for_each(|v| put_array(&mut bytes, v));
        Self { ty: ValueType::Array, len: values.len(), bytes: Bytes::new(bytes) }
    }
}

/// A string as it lies in the file: u64 length, bytes.
pub fn put_str(out: &mut Vec<u8>, s: &str) {
    out.extend_from_slice(&(s.len() as u64).to_le_bytes());
    out.extend_from_slice(s.as_bytes());
}

/// An array as it lies in the file: u32 type, u64 length, elements.
fn put_array(out: &mut Vec<u8>, a: &Array) {
    out.extend_from_slice(&(a.ty as u32).to_le_bytes());
    out.extend_from_slice(&(a.len as u64).to_le_bytes());
    out.extend_from_slice(&a.bytes);
}

/// A value as it lies in the file: u32 type, then the value.
pub fn put_value(out: &mut Vec<u8>, v: &Value) {
    out.extend_from_slice(&(v.ty() as u32).to_le_bytes());
    match v {
        Value::U8(v) => v.put(out),
        Value::I8(v) => v.put(out),
        Value::U16(v) => v.put(out),
        Value::I16(v) => v.put(out),
        Value::U32(v) => v.put(out),
        Value::I32(v) => v.put(out),
        Value::F32(v) => v.put(out),
        Value::Bool(v) => v.put(out),
        Value::Str(v) => put_str(out, v.as_str()),
        Value::Array(v) => put_array(out, v),
        Value::U64(v) => v.put(out),
        Value::I64(v) => v.put(out),
        Value::F64(v) => v.put(out),
    }
}
