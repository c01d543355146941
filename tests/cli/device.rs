//! The program on computers with and without a GPU: an emulated driver, described by QRUN_EMULATOR, in the place of
//! libcuda. Never a panic, nothing half-printed; the text is the CPU's, or exit 5 (memory: 4) with one clear line.

use std::process::Output;

use qrun::{tools::quantize::FileType, tools::synth};

use super::{model, models, qrun, run, text};

/// A computer with this emulated GPU.
fn on(machine: &str, line: &str) -> Output {
    let mut command = qrun();
    command.env("LD_LIBRARY_PATH", qrun_emulator::library()).env("QRUN_EMULATOR", machine);
    command.args(line.split(' ').filter(|w| !w.is_empty())).output().expect("qrun starts")
}

/// A greedy answer of the tiny model; one thread, for the CPU is not what is measured.
fn answer(machine: &str, line: &str) -> Output {
    let model = model("tiny-llama");
    on(machine, &format!("{} -no-cnv -p hello -n 12 --temp 0 -t 1 {line}", model.display()))
}

fn cpu_text() -> String {
    let output = answer("", "--device cpu");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The lines on stderr; none may be a panic's.
#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    let said = text(&output.stderr);
    assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{said}");
    said.lines().map(str::to_owned).collect()
}

/// Largest mean KL divergence of a GPU from the CPU on the demo model: 1.5 times what was measured (2.6e-4).
const KL: f64 = 4e-4;

/// Computers whose GPU cannot be used: what QRUN_EMULATOR says, and words of the reason.
const UNUSABLE: [(&str, &str); 4] = [
    ("devices=0", "sees no GPU"),
    ("driver=12030", "12.4 (driver 550) or newer"),
    ("sm=70", "qrun needs"),
    ("fail=cuInit:1:999", "did not start"),
];

#[test]
fn a_gpu_answers_as_the_cpu_does() {
    let expected = cpu_text();
    for sm in ["sm=75", "sm=80"] {
        for line in ["", "--device cuda", "-ngl 99", "--seed 3 --temp 0.7 --top-k 1"] {
            let output = answer(sm, line);
            assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), expected.clone()), "{sm} {line}");
            assert_eq!(lines(&output), [""; 0], "{sm} {line}");
        }
    }
    let q8 = "-ctk q8_0 -ctv q8_0";
    let on_cpu = text(&answer("", &format!("--device cpu {q8}")).stdout);
    assert_eq!(text(&answer("sm=75", q8).stdout), on_cpu);
    let output = answer("sm=75", "-v");
    let said = lines(&output);
    let plan = said.iter().find(|l| l.starts_with("plan: GPU 0 (")).unwrap_or_else(|| panic!("{said:?}"));
    let numbers: Vec<u64> = plan.split([' ', ',', '(', ';']).filter_map(|w| w.parse().ok()).collect();
    // GPU number; weights + KV cache + activations = sum of available.
    assert_eq!(numbers[1] + numbers[2] + numbers[3], numbers[4], "{plan}");
    assert!(numbers[4] < numbers[5], "{plan}");
}

/// Guesses of the model's own head and of the text so far, which a GPU follows by itself.
#[test]
fn guesses_on_a_gpu_change_no_text_and_are_counted() {
    let file = models().join("guesses-on-a-gpu.gguf");
    synth::synth("tiny-qwen35-mtp", FileType::Q8_0, 7, &file, &mut |_, _| {}).expect("a tiny model");
    let line = format!("{} -no-cnv -p Hello -n 30 -c 128 --ignore-eos --device cuda", file.display());
    for sampling in ["--temp 0", "--temp 1 --seed 5 --repeat-penalty 1.2"] {
        let plain = on("sm=80", &format!("{line} {sampling}"));
        assert!(plain.status.success() && !plain.stdout.is_empty(), "{}", text(&plain.stderr));
        for spec in [
            "draft-mtp",
            "draft-mtp --spec-draft-p-min 0.3 --spec-draft-n-max 15",
            "ngram-simple --spec-ngram-simple-size-n 1 --spec-ngram-simple-size-m 4",
        ] {
            let found = on("sm=80", &format!("{line} {sampling} --perf --spec-type {spec}"));
            assert_eq!(text(&plain.stdout), text(&found.stdout), "{spec}: {}", text(&found.stderr));
            let counted = text(&found.stderr).contains("draft acceptance =");
            assert!(counted || spec != "draft-mtp", "{spec}: {}", text(&found.stderr));
            assert!(!text(&found.stderr).contains("no effect"), "{}", text(&found.stderr));
        }
    }
}

/// `qrun embed`: more texts than go through the layers together, of models that see them whole and of one that does not.
#[test]
fn a_gpu_makes_the_vectors_that_the_cpu_makes() {
    let texts = (1..=40).map(|n| "word ".repeat(n % 7 + 1)).collect::<Vec<_>>().join("\n");
    let file = models().join("texts-for-a-gpu.txt");
    std::fs::write(&file, texts).expect("a file");
    for name in ["tiny-bert", "tiny-nomic-bert", "tiny-gemma-embedding", "tiny-modern-bert", "tiny-qwen3"] {
        let model = models().join(format!("on-a-gpu-{name}.gguf")).display().to_string();
        assert!(run(&format!("synth {name} {model}")).status.success(), "{name}");
        let [expected, found] = [("", "cpu"), ("sm=80", "cuda")].map(|(machine, device)| {
            let line = format!("embed {model} -f {} --pooling mean --embd-output-format raw", file.display());
            let output = on(machine, &format!("{line} --device {device}"));
            assert_eq!((output.status.code(), lines(&output)), (Some(0), vec![]), "{name} on {device}");
            text(&output.stdout)
        });
        let vector = |line: &str| line.split(' ').map(|x| x.parse().expect("a number")).collect::<Vec<f64>>();
        assert_eq!((found.lines().count(), expected.lines().count()), (40, 40), "{name}");
        for (found, expected) in found.lines().map(vector).zip(expected.lines().map(vector)) {
            let cosine: f64 = found.iter().zip(&expected).map(|(a, b)| a * b).sum();
            assert!(cosine > 0.999, "{name}: cosine {cosine}");
        }
    }
}

#[test]
fn a_gpu_that_cannot_be_used_is_one_line_and_the_cpu() {
    let expected = cpu_text();
    for (machine, reason) in UNUSABLE {
        let output = answer(machine, "");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), expected.clone()), "{machine}");
        let said = lines(&output);
        // A computer without a GPU is as it should be: said only to those who listen.
        if machine != "devices=0" {
            assert!(said.len() == 1 && said[0].contains("CPU") && said[0].contains(reason), "{machine}: {said:?}");
        }
        let said = lines(&answer(machine, "-v")).join("\n");
        assert!(said.contains("device: CPU (") && said.contains(reason), "{machine}: {said}");
    }
}

#[test]
fn layers_for_a_gpu_that_is_not_used_are_noted() {
    for (machine, line, reason) in [
        ("devices=0", "-ngl 99", "sees no GPU"),
        ("devices=0", "-ngl all", "sees no GPU"),
        ("sm=80", "-ngl 7 --device cpu", "--device says so"),
    ] {
        let output = answer(machine, line);
        let said = lines(&output);
        assert_eq!((output.status.code(), text(&output.stdout), said.len()), (Some(0), cpu_text(), 1), "{said:?}");
        assert!(said[0].starts_with("note: -ngl has no effect") && said[0].contains(reason), "{said:?}");
    }
    assert_eq!(lines(&answer("devices=0", "-ngl auto")), [""; 0]);
}

#[test]
fn each_gpu_can_be_named() {
    let output = answer("devices=2", "--device cuda1 -v");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), cpu_text()), "{:?}", lines(&output));
    assert!(lines(&output).iter().any(|l| l.starts_with("plan: GPU 1 (")), "{:?}", lines(&output));
    let output = answer("devices=2", "--device CUDA2");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(5), ""));
    assert!(lines(&output)[0].contains("no GPU 2"), "{:?}", lines(&output));
}

#[test]
fn an_old_gpu_hides_no_better_one() {
    for (first, line) in [(61, ""), (75, ""), (61, "--device cuda")] {
        let output = answer(&format!("devices=2,first={first},sm=80"), &format!("-v {line}"));
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), cpu_text()), "{:?}", lines(&output));
        assert!(lines(&output).iter().any(|l| l.starts_with("plan: GPU 1 (")), "{:?}", lines(&output));
    }
    let output = on("devices=2,first=61,sm=80", "devices");
    assert!(text(&output.stdout).contains("--device auto takes cuda1"), "{}", text(&output.stdout));
}

#[test]
fn a_gpu_that_was_asked_for_and_cannot_be_used_is_exit_5() {
    for (machine, reason) in UNUSABLE {
        let output = answer(machine, "--device cuda");
        let said = lines(&output);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(5), ""), "{machine}: {said:?}");
        assert_eq!(said.len(), 1, "{machine}: {said:?}");
        for part in ["error: --device cuda: ", reason, "--device cpu"] {
            assert!(said[0].contains(part), "{part:?} is not in {said:?}");
        }
    }
}

#[test]
fn without_a_driver_the_cpu_answers() {
    let empty = tempfile::tempdir().expect("a folder");
    let run = |line: &str| {
        let mut command = qrun();
        command.env("LD_LIBRARY_PATH", empty.path()).arg(model("tiny-llama"));
        command.args("-no-cnv -p hello -n 12 --temp 0 -t 1".split(' ')).args(line.split_whitespace());
        command.output().expect("qrun starts")
    };
    // This computer may have a driver of its own.
    if qrun_cuda::device::list() != Err(qrun_cuda::device::NoDevice::DriverMissing) {
        return crate::skip("there is a driver here");
    }
    let output = run("");
    assert_eq!((text(&output.stdout), lines(&output)), (cpu_text(), vec![]));
    let output = run("--device cuda");
    let said = lines(&output);
    assert_eq!((output.status.code(), said.len()), (Some(5), 1), "{said:?}");
    assert!(said[0].contains("no NVIDIA driver"), "{said:?}");
}

#[test]
fn flags_choose_the_cpu_before_anything_else() {
    // The driver would fail at its first call.
    for line in ["--device cpu", "--device none", "-ngl 0"] {
        let output = answer("fail=:1:999", &format!("-v {line}"));
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), cpu_text()), "{line}");
        let said = lines(&output).join("\n");
        assert!(said.contains("plan: CPU") && !said.contains("device: CPU ("), "{line}: {said}");
    }
}

#[test]
fn what_does_not_fit_on_the_gpu_is_said_with_the_numbers() {
    // The weights take 2.6 MB; a context of 8000 tokens does not fit into the rest of 16 MiB, a shorter one does.
    // 16 MiB, and the reserve.
    let memory = "memory=285212672";
    let output = answer(memory, "--device cuda -c 8000");
    let said = lines(&output);
    assert_eq!((output.status.code(), said.len()), (Some(4), 1), "{said:?}");
    for part in ["--device cuda: GPU: not enough memory: weights 2", "for 8000 tokens", "available ", "--device cpu"] {
        assert!(said[0].contains(part), "{part:?} is not in {said:?}");
    }
    let fits = said[0].split("-c ").nth(1).and_then(|rest| rest.split(';').next()).expect("a context that fits");
    let output = answer(memory, &format!("--device cuda -c {fits}"));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), cpu_text()), "{:?}", lines(&output));
    let more = fits.parse::<usize>().expect("a number") + 64;
    assert_eq!(answer(memory, &format!("--device cuda -c {more}")).status.code(), Some(4), "{more} tokens fit too");
    // Left to itself, qrun answers on the CPU and says why.
    let output = answer(memory, "-c 8000");
    let said = lines(&output);
    assert_eq!((output.status.code(), text(&output.stdout), said.len()), (Some(0), cpu_text(), 1), "{said:?}");
    assert!(said[0].contains("device: CPU (GPU: not enough memory"), "{said:?}");
    // Not even the weights.
    let said = lines(&answer("memory=2000000", "--device cuda"));
    assert!(said[0].contains("no context fits"), "{said:?}");
}

/// Each driver call of a run fails in turn. While loading, prompting or decoding: the CPU goes on with the same text, or
/// the run ends with one line; either way what is printed is a beginning of the text.
#[test]
fn every_driver_call_may_fail() {
    let expected = cpu_text();
    let calls = ["cuMemAlloc", "cuMemHostAlloc", "cuModuleLoadData", "cuGraphInstantiateWithFlags", "cuGraphLaunch"];
    let counted =
        [("cuLaunchKernelEx", [1, 9, 40]), ("cuStreamSynchronize", [1, 2, 3]), ("cuMemcpyHtoDAsync", [1, 3, 5])];
    let named = calls.map(|call| (call.to_owned(), 1)).into_iter();
    let counted = counted.into_iter().flat_map(|(call, at)| at.map(|n| (call.to_owned(), n)));
    // And any call: close together at first, where each is another one.
    let any = [1, 2, 3, 5, 8, 13, 17, 21, 26, 32, 40, 50, 65, 80, 100, 130, 170, 220].map(|n| (String::new(), n));
    let (mut failed, mut total) = (0, 0);
    for (call, n) in named.chain(counted).chain(any) {
        let machine = format!("fail={call}:{n}:719");
        let output = answer(&machine, "");
        let said = lines(&output);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), expected.clone()), "{machine}: {said:?}");
        assert!(said.len() <= 1 && said.iter().all(|l| l.contains("CPU")), "{machine}: {said:?}");
        failed += said.len();
        total += 1;
        let output = answer(&machine, "--device cuda");
        let (out, said) = (text(&output.stdout), lines(&output));
        match output.status.code() {
            Some(0) => assert_eq!((out, said), (expected.clone(), vec![]), "{machine}"),
            Some(5) => {
                assert!(said.len() == 1 && said[0].starts_with("error: --device cuda: "), "{machine}: {said:?}");
                assert!(
                    out.is_empty() || out.ends_with('\n') && expected.starts_with(out.trim_end()),
                    "{machine}: {out:?}"
                );
            }
            code => panic!("{machine}: exit {code:?}: {said:?}"),
        }
    }
    assert!(failed * 10 > total * 7, "only {failed} of {total} failures were met");
}

#[cfg(unix)]
#[test]
fn a_gpu_that_fails_in_an_answer_is_said_on_a_line_of_its_own() {
    let mut command = qrun();
    command.env("LD_LIBRARY_PATH", qrun_emulator::library()).env("QRUN_EMULATOR", "fail=cuGraphLaunch:5:719");
    command.env("NO_COLOR", "1").arg(model("tiny-llama"));
    command.args("-no-cnv -p hello -n 12 --temp 0 -t 1".split(' '));
    let (code, screen) = super::terminal::Terminal::start(command).end();
    let screen = screen.replace("\r\n", "\n");
    assert_eq!(code, Some(0), "{screen:?}");
    let (before, rest) = screen.split_once("\nnote: GPU: ").unwrap_or_else(|| panic!("{screen:?}"));
    let (said, after) = rest.split_once('\n').expect("a whole line");
    assert!(said.contains("cuGraphLaunch") && said.ends_with("the CPU goes on"), "{said:?}");
    // The text goes on where it was.
    let text = cpu_text();
    assert!(before.ends_with(" thei") && !before.ends_with(text.trim_end()), "{before:?}");
    assert!(format!("{before}{after}").contains(text.trim_end()), "{screen:?}");
}

#[test]
fn devices_and_info_say_what_runs_where_and_why() {
    let listing = text(&on("sm=87,devices=2", "devices").stdout);
    for part in [
        "cuda0: ",
        "cuda1: ",
        "SM 8.7",
        "kernels made for SM 8.6",
        "cpu: ",
        "--device auto takes cuda0",
        "--device cuda1 takes the second GPU",
    ] {
        assert!(listing.contains(part), "{part:?} is not in {listing}");
    }
    for (machine, reason) in UNUSABLE {
        let listing = text(&on(machine, "devices").stdout);
        assert!(listing.contains(reason) && listing.contains("--device auto takes the CPU"), "{machine}: {listing}");
    }
    let info = format!("info {}", model("tiny-gemma3").display());
    let words = text(&on("sm=75", &info).stdout);
    for part in ["runs on     GPU 0 (", "on GPU 0 (", "on CPU"] {
        assert!(words.contains(part), "{part:?} is not in {words}");
    }
    let words = text(&on("sm=70", &info).stdout);
    assert!(words.contains("runs on     CPU (") && words.contains("qrun needs"), "{words}");
    let json: serde_json::Value = serde_json::from_slice(&on("sm=75", &format!("{info} --json")).stdout).expect("JSON");
    let rows = json["gpu"]["memory"].as_array().expect("needs on the GPU");
    for row in rows {
        let sum: u64 = ["weights", "kv", "activations"].iter().map(|k| row[k].as_u64().expect("bytes")).sum();
        assert_eq!(row["total"], sum);
        assert!(row["kv_window"].as_u64().expect("bytes") > 0);
    }
}

#[test]
fn a_gpu_predicts_a_text_as_the_cpu_does() {
    let demo = "models/demo/qrun-demo-Q4_K_M.gguf";
    let corpus = std::fs::read_to_string("models/demo/corpus-sample.txt").expect("the sample text");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("text.txt");
    std::fs::write(&file, corpus.chars().take(700).collect::<String>()).expect("a file");
    let line = |more: &str| format!("perplexity {demo} -f {} -c 64 -t 1 {more}", file.display());
    let beside = format!("--kl-base {demo} --kl-base-device cpu --json");
    let output = on("sm=80", &line(&format!("--device cuda {beside}")));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let place = |which: &str| found[which]["device"].as_str().expect("a device").to_owned();
    assert!(place("runs_on").starts_with("GPU 0 (") && place("base_runs_on") == "CPU", "{found}");
    let (kl, same) = (found["kl"]["mean"].as_f64(), found["same_top"]["mean"].as_f64());
    println!("KL {kl:?}, same best token {same:?} of {}", found["scored"]);
    assert!(kl.is_some_and(|kl| kl <= KL) && same.is_some_and(|same| same >= 0.97), "{found}");
    // Said in words as well; exact arithmetic stays on the CPU, and is refused on a GPU.
    let output = on("sm=80", &line(&format!("--exact --kl-base {demo} --kl-base-device cuda")));
    let said = text(&output.stdout);
    assert!(said.contains("; CPU, exact arithmetic, KV f32/f32; base GPU 0 ("), "{said} {:?}", lines(&output));
    let output = on("sm=80", &line("--exact --device cuda"));
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(5), ""), "{:?}", lines(&output));
}
