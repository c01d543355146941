//! Damaged files: any answer but a panic, and what is read can be looked at.

use qrun_quant::{
    Gguf,
    gguf::{Array, Value},
};

use super::{read, round_trip::everything, small};

/// Reads a file, or finds it refused.
fn walk(bytes: &[u8]) {
    if let Ok(gguf) = read(bytes) {
        walk_file(&gguf);
    }
}

/// Looks at everything that a file claims to have.
fn walk_file(gguf: &Gguf) {
    for (key, value) in gguf.metadata() {
        assert!(gguf.get(key).is_some());
        value.describe();
        if let Value::Array(a) = value {
            walk_array(a);
        }
    }
    for t in gguf.tensors() {
        assert!(gguf.tensor(&t.name).is_some());
        assert_eq!(t.data.len(), t.rows() * t.ty.bytes_of(t.cols()));
    }
}

fn walk_array(a: &Array) {
    use qrun_quant::gguf::ValueType::{Array, Str};
    let n = match a.ty {
        Str => a.strings().count(),
        Array => a.arrays().inspect(walk_array).count(),
        _ => a.numbers().count(),
    };
    assert_eq!(n, a.len);
}

#[test]
fn every_flipped_bit() {
    let mut file = small();
    for at in 0..file.len() * 8 {
        file[at / 8] ^= 1 << (at % 8);
        walk(&file);
        file[at / 8] ^= 1 << (at % 8);
    }
    assert_eq!(file, small());
}

#[test]
fn a_hundred_thousand_mutants() {
    let (_, large) = everything(3, 32);
    let small = small();
    // The damage is done to the header; the data has no meaning.
    let seeds = [(&small, small.len()), (&large, large.len().min(4096))];
    let mut state = 1u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % n
    };
    // Numbers at which arithmetic goes wrong.
    let bad: [u64; 9] = [0, 1, 8, 255, 1 << 31, u32::MAX as u64, 1 << 63, u64::MAX, u64::MAX - 31];
    for i in 0..100_000 {
        let (seed, header) = seeds[usize::from(i % 16 == 0)];
        let mut file = seed.clone();
        for _ in 0..=random(3) {
            let at = random(header.min(file.len()));
            match random(5) {
                0 => file[at] ^= 1 << random(8),
                1 => file[at] = random(256) as u8,
                2 => file.truncate(at.max(4)),
                3 => {
                    let value = bad[random(bad.len())].to_le_bytes();
                    let n = [4, 8][random(2)].min(file.len() - at);
                    file[at..at + n].copy_from_slice(&value[..n]);
                }
                _ => {
                    let n = random(16).min(file.len() - at);
                    let copy = file[at..at + n].to_vec();
                    let to = random(file.len());
                    file.splice(to..to, copy);
                }
            }
        }
        walk(&file);
    }
}
