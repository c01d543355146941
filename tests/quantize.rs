//! `qrun quantize` from file to file.

use std::{fs, path::Path};

use qrun::tools::{
    quantize::{FileType, Mixture, Options, quantize},
    synth,
};
use qrun_models::Model;
use qrun_quant::{
    GgmlType::{self, *},
    Gguf,
    cpu::par::Pool,
    gguf::{Array, write::Header},
};

/// A model of random F32 weights with rows that are multiples of 256 (`attn_*`) and others (`ffn_up`).
fn tiny_model(path: &Path, ty: GgmlType) -> Vec<(String, Vec<f32>)> {
    let mut header = Header::new();
    header.set("general.architecture", "llama");
    header.set("general.name", "tiny");
    header.set("general.file_type", 0u32);
    header.set("llama.block_count", 2u32);
    header.set("split.count", 1u16);
    header.set("tokenizer.ggml.tokens", Array::of_strings(["<unk>", "é", "x"]));
    let mut tensors: Vec<(String, Vec<u64>)> = vec![("token_embd.weight".into(), vec![256, 70])];
    for layer in 0..2 {
        for (part, shape) in [
            ("attn_norm.weight", vec![256]),
            ("attn_q.weight", vec![256, 33]),
            ("attn_q.bias", vec![33]),
            ("attn_v.weight", vec![256, 8]),
            ("ffn_up.weight", vec![288, 64]),
            ("ffn_down.weight", vec![512, 9]),
            ("odd.weight", vec![40, 3]),
        ] {
            tensors.push((format!("blk.{layer}.{part}"), shape));
        }
    }
    tensors.push(("rope_freqs.weight".into(), vec![32]));
    let mut state = 3u64;
    let mut normal = || {
        // Sum of uniforms: bell-shaped without library functions.
        (0..8).fold(-4.0, |sum, _| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            sum + (state >> 40) as f32 / (1 << 24) as f32
        }) * 0.03
    };
    let values: Vec<(String, Vec<f32>)> =
        tensors.iter().map(|(n, s)| (n.clone(), (0..s.iter().product()).map(|_| normal()).collect())).collect();
    let fits = |shape: &[u64]| shape[0].is_multiple_of(ty.format().block as u64);
    let store = |name: &str, shape: &[u64]| if Mixture::quantizes(name, shape) && fits(shape) { ty } else { F32 };
    for (name, shape) in &tensors {
        header.tensor(name.clone(), store(name, shape), shape);
    }
    let mut writer = header.create(path).unwrap();
    for ((name, shape), (_, values)) in tensors.iter().zip(&values) {
        let ty = store(name, shape);
        let mut bytes = vec![0; ty.bytes_of(values.len())];
        (ty.format().quantize.unwrap())(values, &mut bytes);
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
    values
}

/// What lies in a folder: tests look that nothing is left behind.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Largest relative error (root mean square) that a tensor of normal weights may have.
fn bound(ty: GgmlType) -> f64 {
    match ty {
        F32 => 0.0,
        F16 => 3e-4,
        BF16 => 3e-3,
        Q8_0 => 6e-3,
        Q6_K => 0.018,
        Q5_K | Q5_1 => 0.04,
        Q5_0 => 0.045,
        Q4_K | Q4_1 => 0.08,
        Q4_0 => 0.09,
        // Three values, four, and two.
        TQ1_0 | TQ2_0 => 0.45,
        Q2_0 => 0.45,
        Q1_0 => 0.62,
        other => panic!("no bound for {other}"),
    }
}

#[test]
fn every_file_type_from_end_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.gguf");
    let values = tiny_model(&input, F32);
    let source = Gguf::open(&input).unwrap();
    for file_type in FileType::all() {
        let output = dir.path().join(format!("{file_type}.gguf"));
        let mut seen = Vec::new();
        let summary =
            quantize(&input, &output, &Options::new(file_type), &mut |p| seen.push((p.done, p.total))).unwrap();
        let model = Gguf::open(&output).unwrap();
        assert_eq!(model.u64("general.file_type").unwrap(), Some(file_type.number().into()));
        assert_eq!(model.u64("general.quantization_version").unwrap(), Some(2));
        assert_eq!(model.str("general.name").unwrap(), Some("tiny"));
        assert!(model.get("split.count").is_none());
        let tokens = model.array("tokenizer.ggml.tokens").unwrap().unwrap();
        assert_eq!(tokens.strings().collect::<Vec<_>>(), ["<unk>", "é", "x"]);
        assert_eq!(model.tensors().len(), values.len());
        let mixture = Mixture::new(file_type, 2, true);
        for (tensor, (name, x)) in model.tensors().iter().zip(&values) {
            assert_eq!((&tensor.name, &tensor.shape), (name, &source.tensor(name).unwrap().shape));
            assert_eq!(tensor.ty, mixture.choose(name, &tensor.shape), "{file_type} {name}");
            let mut y = vec![f32::NAN; x.len()];
            (tensor.ty.format().dequantize)(&tensor.data, &mut y);
            let sum =
                |f: fn(f64, f64) -> f64| -> f64 { x.iter().zip(&y).map(|(x, y)| f((*x).into(), (*y).into())).sum() };
            let error = (sum(|x, y| (x - y) * (x - y)) / sum(|x, _| x * x)).sqrt();
            assert!(error <= bound(tensor.ty), "{file_type} {name} {}: error {error}", tensor.ty);
        }
        assert_eq!(summary.bytes_out, model.tensors().iter().map(|t| t.data.len() as u64).sum::<u64>());
        assert_eq!(summary.formats.iter().map(|f| f.1).sum::<usize>(), values.len());
        assert_eq!(seen.last(), Some(&(summary.bytes_in, summary.bytes_in)));
        assert!(seen.is_sorted() && seen.len() > values.len());
    }
    let output = dir.path().join("again.gguf");
    let summary = quantize(&input, &output, &Options::new(FileType::Q4_K_M), &mut |_| ()).unwrap();
    let up = ("blk.0.ffn_up.weight".to_owned(), Q4_K, Q5_0);
    assert_eq!(summary.fallbacks.len(), 4, "{:?}", summary.fallbacks);
    assert!(summary.fallbacks.contains(&up), "{:?}", summary.fallbacks);
    assert!(names(dir.path()).iter().all(|name| name.ends_with(".gguf")));
}

#[test]
fn same_bytes_on_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.gguf");
    tiny_model(&input, BF16);
    for file_type in [FileType::Q4_K_M, FileType::Q5_K_M, FileType::Q6_K, FileType::Q4_0, FileType::F32] {
        let of = |threads: usize| {
            let output = dir.path().join(format!("{file_type}-{threads}.gguf"));
            let run = || quantize(&input, &output, &Options::new(file_type), &mut |_| ()).unwrap();
            Pool::new(threads).unwrap().install(run);
            fs::read(output).unwrap()
        };
        let one = of(1);
        assert!(one == of(2) && one == of(5), "{file_type}");
    }
}

#[test]
fn refusals_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    tiny_model(&path("in.gguf"), F32);
    tiny_model(&path("small.gguf"), Q8_0);
    fs::write(path("taken.gguf"), b"mine").unwrap();
    fs::create_dir(path("folder")).unwrap();
    let before = names(dir.path());
    let q4 = Options::new(FileType::Q4_0);
    for (input, output, expected) in [
        ("in.gguf", "in.gguf", "another file than the input"),
        ("in.gguf", "folder/../in.gguf", "another file than the input"),
        ("in.gguf", "taken.gguf", "--force"),
        ("in.gguf", "folder", "the name of a file"),
        ("in.gguf", "nowhere/out.gguf", "a writable place"),
        ("nowhere.gguf", "out.gguf", "nowhere.gguf"),
        ("taken.gguf", "out.gguf", "GGUF"),
        ("small.gguf", "out.gguf", "--allow-requantize"),
    ] {
        let error = quantize(&path(input), &path(output), &q4, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{input} {output}: {error}");
        assert_eq!(names(dir.path()), before, "{input} {output}");
    }
    assert_eq!(fs::read(path("taken.gguf")).unwrap(), b"mine");
    let force = Options { force: true, ..q4 };
    assert!(quantize(&path("in.gguf"), &path("in.gguf"), &force, &mut |_| ()).is_err());
    quantize(&path("in.gguf"), &path("taken.gguf"), &force, &mut |_| ()).unwrap();
    let again = Options { allow_requantize: true, ..q4 };
    quantize(&path("small.gguf"), &path("out.gguf"), &again, &mut |_| ()).unwrap();
    for name in ["taken.gguf", "out.gguf"] {
        assert_eq!(Gguf::open(&path(name)).unwrap().tensor("blk.0.attn_q.weight").unwrap().ty, Q4_0, "{name}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return crate::skip("no /dev/full here");
    }
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.gguf");
    tiny_model(&input, F32);
    let error = quantize(&input, full, &Options::new(FileType::Q8_0), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("space"), "{error}");
}

#[test]
fn experts_are_quantized_as_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in.gguf"), dir.path().join("out.gguf"));
    for (name, file_type, experts, others) in
        [("tiny-qwen3moe", FileType::Q4_K_M, Q4_K, Q4_K), ("tiny-gpt-oss", FileType::MXFP4_MOE, MXFP4, Q8_0)]
    {
        synth::synth(name, FileType::BF16, 1, &input, &mut |_, _| {}).unwrap();
        let options = Options { force: true, ..Options::new(file_type) };
        quantize(&input, &out, &options, &mut |_| ()).unwrap();
        let (before, after) = (Gguf::open(&input).unwrap(), Gguf::open(&out).unwrap());
        let ty = |name: &str| after.tensor(name).unwrap().ty;
        assert_eq!([ty("blk.1.ffn_gate_exps.weight"), ty("blk.1.attn_q.weight")], [experts, others], "{name}");
        assert_eq!(ty("blk.1.ffn_gate_inp.weight"), F32, "a router stays as it is");
        Model::load(&after).unwrap();
        // Every expert is what it was.
        let part = "blk.2.ffn_up_exps.weight";
        let [before, after] = [&before, &after].map(|gguf| {
            let t = gguf.tensor(part).unwrap();
            let mut values = vec![0f32; t.len()];
            (t.ty.format().dequantize)(&t.data, &mut values);
            values
        });
        let n = before.len() / 8;
        for (expert, (before, after)) in before.chunks(n).zip(after.chunks(n)).enumerate() {
            let square = |x: f32| f64::from(x).powi(2);
            let error: f64 = before.iter().zip(after).map(|(a, b)| square(a - b)).sum();
            let size: f64 = before.iter().map(|x| square(*x)).sum();
            assert!((error / size).sqrt() < 0.15, "{name}, expert {expert}: {}", (error / size).sqrt());
        }
    }
}
