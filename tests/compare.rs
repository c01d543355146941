//! Two decoders side by side, by their intermediate results.

use std::process::Command;

use qrun::{
    tools::compare::compare,
    tools::{quantize::FileType, synth},
};
use qrun_models::{CpuDecoder, Model, Options};
use qrun_quant::{Bytes, Gguf};

fn decoder(seed: u64, options: Options) -> CpuDecoder {
    let shape = synth::find("tiny-gemma3").expect("a tiny model");
    let bytes = synth::shape_bytes(shape, FileType::Q8_0, seed).expect("its bytes");
    let gguf = Gguf::from_bytes("tiny", Bytes::new(bytes)).expect("a file");
    CpuDecoder::new(Model::load(&gguf).expect("a model"), Options { n_ctx: 64, ..options }).expect("threads")
}

#[test]
fn equal_decoders_have_no_distance_and_others_part_where_they_differ() {
    let tokens: Vec<u32> = (5..30).collect();
    let (mut exact, mut same) = (decoder(3, Options::exact()), decoder(3, Options::exact()));
    let distances = compare(&mut same, &mut exact, &tokens).expect("results");
    assert!(distances.len() > 10 && distances.iter().all(|d| d.relative == 0.0 && d.len[0] == d.len[1]));
    let names: Vec<_> = distances.iter().map(|d| d.name).collect();
    assert_eq!((names[0], names[1], *names.last().expect("one")), ("inp_embd", "attn_norm", "result_output"));
    // Integers in place of f32: near in every result, equal only before the first product.
    let fast = compare(&mut decoder(3, Options::default()), &mut exact, &tokens).expect("results");
    assert!(fast.iter().all(|d| d.relative < 0.05), "{fast:?}");
    assert_eq!((fast[0].relative, fast[1].relative), (0.0, 0.0));
    assert!(fast[2].relative > 0.0);
    // Other weights: apart from the first result on.
    let other = compare(&mut decoder(4, Options::exact()), &mut exact, &tokens).expect("results");
    assert!(other[0].relative > 0.5, "{:?}", other[0]);
}

#[test]
fn the_job_names_the_first_result_that_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("m.gguf");
    let shape = synth::find("tiny-llama").expect("a tiny model");
    std::fs::write(&file, synth::shape_bytes(shape, FileType::Q8_0, 3).expect("its bytes")).expect("a file");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qrun"));
        command.env("LD_LIBRARY_PATH", qrun_emulator::library()).env("QRUN_EMULATOR", "sm=75");
        let output = command.arg("compare").arg(&file).args(more).output().expect("qrun starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, table, said) = run(&["--device", "cuda,exact"]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{table}");
    assert!(table.contains("layer 0: l_out") && table.contains("result_output"), "{table}");
    let (code, _, said) = run(&["--device", "cuda,exact", "--bound", "0"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the first that differs: layer 0: "), "{said}");
    let (code, _, said) = run(&["--device", "cuda"]);
    assert!(code == Some(2) && said.contains("two of cpu, exact, cuda"), "{said}");
}
