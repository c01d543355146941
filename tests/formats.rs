//! Block formats: bit-exact dequantization, quantization errors beside those of the reference.

use std::{fs, path::PathBuf};

use qrun_quant::{GgmlType, formats::FORMATS};

fn data(file: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats").join(file);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn fnv1a(values: &[f32]) -> u64 {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes());
    bytes.fold(0xcbf29ce484222325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100000001b3))
}

/// Golden vectors made by `tests/data/formats/make.py` with the public `gguf` package.
#[test]
fn dequantize_is_bit_exact() {
    for format in FORMATS {
        let file = data(&format!("{}.bin", format.name));
        let (header, rest) = file.split_at(12);
        let [count, bytes, weights] =
            [0, 4, 8].map(|i| u32::from_le_bytes(header[i..i + 4].try_into().unwrap()) as usize);
        let (blocks, rest) = rest.split_at(count * bytes);
        let (hashes, firsts) = rest.split_at(count * 8);
        assert!(count >= 8 && firsts.len() == count * 64, "{}: golden file is damaged", format.name);
        assert_eq!(weights * format.bytes, bytes * format.block, "{}: block size", format.name);
        let mut out = vec![f32::NAN; count * weights];
        (format.dequantize)(blocks, &mut out);
        for (i, out) in out.chunks_exact(weights).enumerate() {
            let first: Vec<f32> = firsts[i * 64..][..64].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            let bits = |x: &[f32]| x.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(
                bits(&out[..16]),
                bits(&first),
                "{} block {i}: {:?}, expected {first:?}",
                format.name,
                &out[..16]
            );
            let hash = u64::from_le_bytes(hashes[i * 8..][..8].try_into().unwrap());
            assert_eq!(fnv1a(out), hash, "{} block {i}: a weight after the first 16 differs", format.name);
        }
    }
}

#[test]
fn one_row_per_format() {
    let all: Vec<GgmlType> = GgmlType::all().collect();
    assert_eq!(all.len(), 15);
    for ty in all {
        assert_eq!(FORMATS.iter().filter(|f| f.ty == ty || f.name == ty.name()).count(), 1, "{ty}");
        assert_eq!(GgmlType::from_number(ty as u32), Some(ty));
        assert_eq!(GgmlType::from_name(&ty.name().to_lowercase()), Some(ty));
    }
}
