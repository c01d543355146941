//! Metadata values. Strings and arrays are ranges of the mapping, decoded at each access.

use crate::Bytes;

/// GGUF metadata types with their numbers in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    Str = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// All types, indexed by their number.
    pub const ALL: [ValueType; 13] = {
        use ValueType::*;
        [U8, I8, U16, I16, U32, I32, F32, Bool, Str, Array, U64, I64, F64]
    };

    /// Size of one value in bytes; 0 for strings and arrays, which carry their own length.
    pub const fn size(self) -> usize {
        use ValueType::*;
        match self {
            U8 | I8 | Bool => 1,
            U16 | I16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 => 8,
            Str | Array => 0,
        }
    }
}

/// A UTF-8 string in the mapping (checked when the file is opened).
#[derive(Clone, PartialEq, Eq)]
pub struct Text(pub(super) Bytes);

impl Text {
    /// The string where it is mapped, not copied.
    pub fn as_str(&self) -> &str {
        // Checked at open; the fallback only keeps this function total.
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

/// An array that stays in the mapping in file layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Type of the elements.
    pub ty: ValueType,
    /// Elements of the array.
    pub len: usize,
    /// The elements in file layout: packed scalars, length-prefixed strings, or arrays.
    pub bytes: Bytes,
}

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(Text),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value {
    /// Its type in the file.
    pub fn ty(&self) -> ValueType {
        use Value::*;
        match self {
            U8(_) => ValueType::U8,
            I8(_) => ValueType::I8,
            U16(_) => ValueType::U16,
            I16(_) => ValueType::I16,
            U32(_) => ValueType::U32,
            I32(_) => ValueType::I32,
            F32(_) => ValueType::F32,
            Bool(_) => ValueType::Bool,
            Str(_) => ValueType::Str,
            Array(_) => ValueType::Array,
            U64(_) => ValueType::U64,
            I64(_) => ValueType::I64,
            F64(_) => ValueType::F64,
        }
    }
    /// As an unsigned integer, where it is an integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        use Value::*;
        match *self {
            U8(v) => Some(v.into()),
            U16(v) => Some(v.into()),
            U32(v) => Some(v.into()),
            U64(v) => Some(v),
            I8(v) => v.try_into().ok(),
            I16(v) => v.try_into().ok(),
            I32(v) => v.try_into().ok(),
            I64(v) => v.try_into().ok(),
            _ => None,
        }
    }
    /// The number, of whatever type; `None` for other values.
    pub fn as_f64(&self) -> Option<f64> {
        use Value::*;
        match *self {
            F32(v) => Some(v.into()),
            F64(v) => Some(v),
            I8(v) => Some(v.into()),
            I16(v) => Some(v.into()),
            I32(v) => Some(v.into()),
            I64(v) => Some(v as f64),
            _ => self.as_u64().map(|v| v as f64),
        }
    }
    /// The bool; `None` for other values.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(v) = self { Some(*v) } else { None }
    }
    /// The string; `None` for other values.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(v) = self { Some(v.as_str()) } else { None }
    }
    /// The array; `None` for other values.
    pub fn as_array(&self) -> Option<&Array> {
        if let Value::Array(v) = self { Some(v) } else { None }
    }
    /// Type and value in a few words, for errors and listings.
    pub fn describe(&self) -> String {
        use Value::*;
        match self {
            Str(v) => {
                let short: String = v.as_str().chars().take(60).collect();
                format!("string {short:?}")
            }
            Array(v) => format!("array of {} {:?}", v.len, v.ty),
            U8(v) => format!("{v}"),
            I8(v) => format!("{v}"),
            U16(v) => format!("{v}"),
            I16(v) => format!("{v}"),
            U32(v) => format!("{v}"),
            I32(v) => format!("{v}"),
            F32(v) => format!("{v}"),
            Bool(v) => format!("{v}"),
            U64(v) => format!("{v}"),
            I64(v) => format!("{v}"),
            F64(v) => format!("{v}"),
        }
    }
}

impl Array {
    /// The strings in order; an empty iterator when the elements are not strings.
    pub fn strings(&self) -> impl Iterator<Item = &str> {
        let mut rest: &[u8] = if self.ty == ValueType::Str { &self.bytes } else { &[] };
        std::iter::from_fn(move || {
            let (len, tail) = rest.split_first_chunk::<8>()?;
            let (text, tail) = tail.split_at_checked(u64::from_le_bytes(*len) as usize)?;
            rest = tail;
            Some(std::str::from_utf8(text).unwrap_or(""))
        })
    }

    /// The arrays in order; an empty iterator when the elements are not arrays.
    pub fn arrays(&self) -> impl Iterator<Item = Array> {
        let mut at = 0;
        std::iter::from_fn(move || {
            if self.ty != ValueType::Array {
                return None;
            }
            let (array, end) = Array::at(&self.bytes, at)?;
            at = end;
            Some(array)
        })
    }

    /// The array whose type and length stand at `at`, and where it ends.
    fn at(bytes: &Bytes, at: usize) -> Option<(Array, usize)> {
        let (ty, rest) = bytes.get(at..)?.split_first_chunk::<4>()?;
        let ty = *ValueType::ALL.get(u32::from_le_bytes(*ty) as usize)?;
        let len = u64::from_le_bytes(*rest.first_chunk::<8>()?) as usize;
        let start = at + 12;
        let mut end = start;
        match ty {
            ValueType::Str => {
                for _ in 0..len {
                    let n = u64::from_le_bytes(*bytes.get(end..)?.first_chunk::<8>()?) as usize;
                    end = end.checked_add(8)?.checked_add(n)?;
                }
            }
            ValueType::Array => {
                for _ in 0..len {
                    end = Array::at(bytes, end)?.1;
                }
            }
            _ => end = start.checked_add(len.checked_mul(ty.size())?)?,
        }
        (end <= bytes.len()).then(|| (Array { ty, len, bytes: bytes.slice(start..end) }, end))
    }

    /// The numbers in order, as f64 (exact for everything but 64-bit integers above 2^53).
    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        use ValueType::*;
        let (ty, size) = (self.ty, self.ty.size());
        let bytes: &[u8] = if size == 0 { &[] } else { &self.bytes };
        bytes.chunks_exact(size.max(1)).map(move |b| match ty {
            U8 | Bool => b[0].into(),
            I8 => (b[0] as i8).into(),
            U16 => u16::from_le_bytes([b[0], b[1]]).into(),
            I16 => i16::from_le_bytes([b[0], b[1]]).into(),
            U32 => u32::from_le_bytes([b[0], b[1], b[2], b[3]]).into(),
            I32 => i32::from_le_bytes([b[0], b[1], b[2], b[3]]).into(),
            F32 => f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into(),
            U64 => u64::from_le_bytes(b.try_into().unwrap_or_default()) as f64,
            I64 => i64::from_le_bytes(b.try_into().unwrap_or_default()) as f64,
            F64 => f64::from_le_bytes(b.try_into().unwrap_or_default()),
            Str | Array => 0.0,
        })
    }
}
