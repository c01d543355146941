//! Block formats: bit-exact dequantization, quantization errors beside those of the reference.

use std::{fs, path::PathBuf};

use qrun_quant::{
    Bytes, GgmlType, Gguf,
    formats::{FORMATS, Format, Quantizer},
    gguf::write::Header,
};

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
    assert_eq!(all.len(), 28);
    for ty in all {
        assert_eq!(FORMATS.iter().filter(|f| f.ty == ty || f.name == ty.name()).count(), 1, "{ty}");
        assert_eq!(GgmlType::from_number(ty as u32), Some(ty));
        assert_eq!(GgmlType::from_name(&ty.name().to_lowercase()), Some(ty));
    }
}

/// Types that qrun does not read are refused by their names.
#[test]
fn foreign_types_are_named() {
    #[rustfmt::skip]
    let foreign = [
        (9, "Q8_1"), (15, "Q8_K"), (24, "I8"), (25, "I16"), (26, "I32"), (27, "I64"), (28, "F64"), (43, "type 43"),
    ];
    let (mut header, mut file) = (Header::new(), Vec::new());
    header.tensor("blk.0.odd.weight", GgmlType::F32, &[256]);
    let mut writer = header.write_to("foreign".as_ref(), &mut file).expect("a header");
    writer.write(&[0; 1024]).expect("a tensor");
    writer.finish().expect("a file");
    let name = b"blk.0.odd.weight";
    // Behind the name: how many dimensions, the one, the type.
    let at = file.windows(name.len()).position(|w| w == name).expect("the tensor") + name.len() + 4 + 8;
    for (number, name) in foreign {
        assert_eq!(GgmlType::from_number(number), None, "{name}");
        file[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let error = Gguf::from_bytes("foreign", Bytes::new(file.clone())).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains("blk.0.odd.weight"), "{name}: {error}");
    }
}

/// Relative root mean square error of quantizing and dequantizing `x`.
fn quantization_error(ty: GgmlType, x: &[f32]) -> f64 {
    let format = ty.format();
    let (mut blocks, mut y) = (vec![0; ty.bytes_of(x.len())], vec![f32::NAN; x.len()]);
    (format.quantize.expect("a format that can be written"))(x, &mut blocks);
    (format.dequantize)(&blocks, &mut y);
    let square = |v: f64| v * v;
    let error: f64 = x.iter().zip(&y).map(|(x, y)| square(f64::from(*y) - f64::from(*x))).sum();
    let norm: f64 = x.iter().map(|x| square(f64::from(*x))).sum();
    if norm > 0.0 { (error / norm).sqrt() } else { error.sqrt() }
}

/// Weights and errors of ggml's quantizer made by `tests/data/formats/reference.py`.
#[test]
fn quantizers_are_no_worse_than_the_reference() {
    let weights: Vec<f32> =
        data("weights.bin").as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect();
    let reference = String::from_utf8(data("reference.txt")).unwrap();
    let (mut worse, mut table) = (Vec::new(), String::new());
    for line in reference.lines() {
        let [case, row, exponent, name, theirs] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (row, exponent): (usize, i32) = (row.parse().unwrap(), exponent.parse().unwrap());
        let theirs: f64 = theirs.parse().unwrap();
        let x: Vec<f32> = weights[row * 2048..][..2048].iter().map(|x| x * 2f32.powi(exponent)).collect();
        let ours = quantization_error(GgmlType::from_name(name).unwrap(), &x);
        table += &format!("{case:15} {name:5} {ours:.4e} reference {theirs:.4e} ratio {:.3}\n", ours / theirs);
        // Six printed digits; a NaN fails.
        if ours.is_nan() || ours > theirs * 1.000_001 {
            worse.push(format!("{case} {name}: {ours:e} is more than {theirs:e}"));
        }
    }
    assert_eq!(table.lines().count(), 18 * 13);
    if std::env::var_os("QRUN_SHOW").is_some() {
        std::io::Write::write_all(&mut std::io::stderr(), table.as_bytes()).unwrap();
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}

/// The formats of blocks that qrun writes.
fn written_blocks() -> impl Iterator<Item = (&'static Format, Quantizer)> {
    FORMATS.iter().filter(|f| f.block > 1).filter_map(|f| Some((f, f.quantize?)))
}

/// Any bits at all, infinities and NaN among them: no panic, and what comes back is finite.
#[test]
fn quantizers_are_total() {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 0.0, -0.0];
    for (format, quantize) in written_blocks() {
        for round in 0..600 {
            let x: Vec<f32> = (0..256)
                .map(|i| match round {
                    0..9 => special[round],
                    9..100 if i % (round % 7 + 1) != 0 => 0.25,
                    9..100 => special[next() as usize % 9],
                    _ => f32::from_bits(next() & (u32::MAX << (round % 24)) | (round % 2) as u32),
                })
                .collect();
            let (mut blocks, mut y) = (vec![0; format.ty.bytes_of(256)], vec![f32::NAN; 256]);
            quantize(&x, &mut blocks);
            (format.dequantize)(&blocks, &mut y);
            assert!(y.iter().all(|y| y.is_finite()), "{} round {round}: {x:?} became {y:?}", format.name);
        }
    }
}

/// What cannot be represented saturates; one wild weight leaves the other blocks alone.
#[test]
fn wild_weights_saturate_in_their_own_block() {
    for (format, quantize) in written_blocks() {
        let mut x = vec![0.5; 512];
        x[3] = f32::INFINITY;
        x[4] = f32::NAN;
        let (mut blocks, mut y) = (vec![0; format.ty.bytes_of(512)], vec![f32::NAN; 512]);
        quantize(&x, &mut blocks);
        (format.dequantize)(&blocks, &mut y);
        // One magnitude for all: their mean.
        let least = if format.ty == GgmlType::Q1_0 { 500.0 } else { 60_000.0 };
        assert!(y[3] > least, "{}: infinity became {}", format.name, y[3]);
        assert!(y[256..].iter().all(|y| (y - 0.5).abs() < 0.01), "{}: the second block changed", format.name);
    }
}

/// No exponent of MXFP4 makes a smaller error than the one that is chosen, whatever the weights are like.
#[test]
fn mxfp4_blocks_are_the_nearest_ones() {
    const MAGNITUDES: [f64; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];
    let format = GgmlType::MXFP4.format();
    let mut state = 11u64;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut seen = [0; 3];
    for round in 0..600 {
        // From even ones to a single large one among small ones, of all sizes.
        let power = round % 12;
        let scale = f32::exp2((round % 241 - 120) as f32);
        let mut x: Vec<f32> = (0..32).map(|_| uniform().powi(2 * power + 1) * scale).collect();
        if power == 11 {
            // All but one are better off with half the steps.
            x.fill(0.5 * scale);
            x[round as usize % 32] = 8.0 * scale;
        }
        let (mut block, mut y) = (vec![0; 17], vec![f32::NAN; 32]);
        (format.quantize.expect("MXFP4 is written"))(&x, &mut block);
        (format.dequantize)(&block, &mut y);
        let sum = |error: &dyn Fn(f64, f64) -> f64| -> f64 {
            x.iter().zip(&y).map(|(x, y)| error(f64::from(*x), f64::from(*y)).powi(2)).sum()
        };
        let least = (0..=252).map(|e| {
            let nearest = |x: f64| MAGNITUDES.map(|m| (m * f64::exp2(f64::from(e) - 128.0) - x.abs()).abs());
            sum(&|x, _| nearest(x).into_iter().fold(f64::INFINITY, f64::min))
        });
        let (ours, least) = (sum(&|x, y| x - y), least.fold(f64::INFINITY, f64::min));
        assert!(ours <= least * 1.000_001, "round {round}: {ours:e} is more than {least:e} of {x:?}");
        let largest = x.iter().fold(0f32, |m, x| m.max(x.abs()));
        seen[((largest.to_bits() >> 23) as i32 - 1 - i32::from(block[0])) as usize] += 1;
    }
    assert!(seen.iter().all(|n| *n > 10), "each choice is tried: {seen:?}");
}

/// Weights that a ternary or binary model has come back as they were, wherever the magnitude fits an f16.
#[test]
fn ternary_and_binary_weights_are_exact() {
    use GgmlType::{Q1_0, Q2_0, TQ1_0, TQ2_0};
    let mut state = 5u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    for ty in [TQ1_0, TQ2_0, Q2_0, Q1_0] {
        let format = ty.format();
        for round in 0..400 {
            let magnitude = half::f16::from_bits(next(0x7c00) as u16).to_f32();
            // From all zeros to none.
            let zeros = if ty == Q1_0 { 0 } else { round % 9 };
            let x: Vec<f32> = (0..format.block)
                .map(|_| match next(8) {
                    n if n < zeros => 0.0,
                    n if n % 2 == 0 => magnitude,
                    _ => -magnitude,
                })
                .collect();
            let (mut block, mut y) = (vec![0; format.bytes], vec![f32::NAN; format.block]);
            format.quantize.expect("a format that is written")(&x, &mut block);
            (format.dequantize)(&block, &mut y);
            assert_eq!(x, y, "{ty}, round {round}, weights of ±{magnitude}");
        }
    }
}

/// No f16 scale makes a smaller error than the one that is chosen, whatever the weights are like.
#[test]
fn ternary_and_binary_blocks_are_the_nearest_ones() {
    use GgmlType::{Q1_0, TQ1_0, TQ2_0};
    let mut state = 3u64;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    for (ty, levels) in [(TQ1_0, &[-1.0, 0.0, 1.0][..]), (TQ2_0, &[-1.0, 0.0, 1.0]), (Q1_0, &[-1.0, 1.0])] {
        let format = ty.format();
        for round in 0..24 {
            let scale = f32::exp2((round % 9 - 4) as f32);
            let x: Vec<f32> = (0..format.block).map(|_| uniform().powi(2 * (round % 6) + 1) * scale).collect();
            let (mut block, mut y) = (vec![0; format.bytes], vec![f32::NAN; format.block]);
            format.quantize.expect("a format that is written")(&x, &mut block);
            (format.dequantize)(&block, &mut y);
            let of = |y: f64, x: f32| (y - f64::from(x)).powi(2);
            let ours: f64 = x.iter().zip(&y).map(|(x, y)| of(f64::from(*y), *x)).sum();
            let least = (0..0x7c00).map(|bits| {
                let d = half::f16::from_bits(bits).to_f64();
                let nearest = |x: &f32| levels.iter().map(|level| of(d * level, *x)).fold(f64::INFINITY, f64::min);
                x.iter().map(nearest).sum::<f64>()
            });
            let least = least.fold(f64::INFINITY, f64::min);
            assert!(ours <= least * 1.000_001, "{ty}, round {round}: {ours:e} is more than {least:e} of {x:?}");
        }
    }
}

/// 16-bit floats round to nearest, ties to even; out of range is infinite, NaN stays NaN.
#[test]
fn sixteen_bit_floats_round_to_even() {
    let bits = |ty: GgmlType, x: f32| {
        let mut out = [0; 2];
        (ty.format().quantize.unwrap())(&[x], &mut out);
        u16::from_le_bytes(out)
    };
    for (x, f16, bf16) in [
        (1.0, 0x3c00, 0x3f80),
        (1.0 + 1.0 / 2048.0, 0x3c00, 0x3f80), // halfway between two f16: to the even one
        (1.0 + 3.0 / 2048.0, 0x3c02, 0x3f80),
        (1.0 + 1.0 / 256.0, 0x3c04, 0x3f80), // halfway between two bf16
        (1.0 + 3.0 / 256.0, 0x3c0c, 0x3f82),
        (65519.0, 0x7bff, 0x4780),
        (65520.0, 0x7c00, 0x4780),
        (-1e-30, 0x8000, 0x8da2),
        (6e-8, 0x0001, 0x3381),
        (f32::INFINITY, 0x7c00, 0x7f80),
        (f32::MAX, 0x7c00, 0x7f80),
    ] {
        assert_eq!(bits(GgmlType::F16, x), f16, "f16 of {x:e}");
        assert_eq!(bits(GgmlType::BF16, x), bf16, "bf16 of {x:e}");
    }
    for nan in [f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)] {
        assert!(half::f16::from_bits(bits(GgmlType::F16, nan)).is_nan(), "f16 of {:#x}", nan.to_bits());
        assert!(half::bf16::from_bits(bits(GgmlType::BF16, nan)).is_nan(), "bf16 of {:#x}", nan.to_bits());
    }
}
