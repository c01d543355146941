//! Compiles the emulator's runtime into `libcuda.so` and every kernel into libraries beside it, one for each
//! architecture, fast and checked; and the program `layout`, which prints the sizes, offsets and constants that the host
//! shares with the kernels, into layout.txt. An object is made again only where its preprocessed text or its flags changed.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const COMMON: &[&str] = &[
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fmax-errors=8",
    "-Ikernel",
    "-I../kernels",
];
const RUNTIME: &[&str] = &["-O2", "-g1", "-Wall", "-Wextra"];
const KERNEL: &[&str] =
    &["-w", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fstack-clash-protection", "-g1"];
/// `-O2` takes two thirds longer to compile, and tests gain nothing by it.
const FAST: &[&str] = &["-O1", "-DFAST_EMULATION=1"];
/// For a processor that has them, instructions in place of calls (`fmaf`) and eight lanes at once: the same numbers sooner.
const SINCE_HASWELL: &[&str] = &["-march=x86-64-v3"];
const CHECKED: &[&str] = &[
    "-O1",
    "-fsanitize=thread",
    "-fsanitize=bounds-strict,alignment,shift-exponent",
    "--param=tsan-instrument-func-entry-exit=0",
];
/// With `QRUN_EMULATOR_ARITHMETIC=silicon`: rounding as GPUs have it where PTX leaves it open.
const SILICON: &[&str] = &["-DSILICON", "-mfma", "-ffp-contract=fast"];
const SM_80: &str = "-D__CUDA_ARCH__=800";
const ARCHITECTURES: [(&str, &str); 2] = [("75", "-D__CUDA_ARCH__=750"), ("80", SM_80)];
/// Words of ptx.cuh that are other instructions on another architecture.
const ARCHITECTURE_WORDS: [&str; 2] = ["mma_", "cp_async"];

/// One call of the compiler: a source, its flags, the library that wants the object.
struct Unit {
    source: PathBuf,
    flags: Vec<&'static str>,
    library: String,
}

/// What a unit becomes: an object, named after all that goes into it, and the kernels in it.
struct Object {
    path: PathBuf,
    kernels: Vec<(String, String)>,
    flags: Vec<&'static str>,
}

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for input in ["build.rs", "kernel", "runtime", "tests/bugs", "../kernels"] {
        println!("cargo:rerun-if-changed={input}");
    }
    println!("cargo:rerun-if-env-changed=QRUN_EMULATOR_OBJECTS");
    println!("cargo:rerun-if-env-changed=QRUN_EMULATOR_ARITHMETIC");
    let arithmetic: &[&str] = match std::env::var("QRUN_EMULATOR_ARITHMETIC").as_deref() {
        Err(_) | Ok("") => &[],
        Ok("silicon") => SILICON,
        Ok(other) => panic!("QRUN_EMULATOR_ARITHMETIC={other}: expected silicon"),
    };
    let for_this = [arithmetic, this_processor()].concat();
    // The machine of isa/ is compiled for such a processor too.
    println!("cargo:rustc-check-cfg=cfg(avx2)");
    if this_processor() == SINCE_HASWELL && std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        println!("cargo:rustc-cfg=avx2");
    }
    // Objects may be kept in a folder that several checkouts share.
    let shared = std::env::var_os("QRUN_EMULATOR_OBJECTS").map(PathBuf::from);
    let kept = shared.clone().unwrap_or_else(|| out.clone());
    fs::create_dir_all(&kept).expect("the folder for objects can be made");
    let mut units = Vec::new();
    for source in files("runtime", "cpp") {
        units.push(Unit { source, flags: [RUNTIME, &for_this].concat(), library: "libcuda.so".into() });
    }
    for (variant, how) in [("fast", FAST), ("checked", CHECKED)] {
        for (arch, define) in ARCHITECTURES {
            let library = format!("kernels-{variant}-{arch}.so");
            units.push(Unit { source: "kernel/table.cpp".into(), flags: KERNEL.to_vec(), library: library.clone() });
            for source in files("../kernels", "cu").into_iter().chain(files("tests/bugs", "cu")) {
                units.push(Unit {
                    source,
                    flags: [KERNEL, how, &[define], &for_this].concat(),
                    library: library.clone(),
                });
            }
        }
    }
    units.push(Unit {
        source: "kernel/layout.cpp".into(),
        flags: [KERNEL, &[SM_80]].concat(),
        library: "layout".into(),
    });
    let objects = in_parallel(&units, |unit| preprocess(unit, &kept));
    let mut missing: Vec<_> = units.iter().zip(&objects).filter(|(_, o)| !o.path.exists()).collect();
    missing.sort_by(|(_, a), (_, b)| a.path.cmp(&b.path));
    missing.dedup_by(|(_, a), (_, b)| a.path == b.path);
    // The longest first: those with the most kernels.
    missing.sort_by_key(|(u, o)| (std::cmp::Reverse(o.kernels.len()), u.library != "layout"));
    in_parallel(&missing, |(unit, object)| compile(unit, object, &out));
    let mut libraries: Vec<&str> = units.iter().map(|u| u.library.as_str()).collect();
    libraries.dedup();
    for library in libraries {
        let mut link = compiler();
        link.arg("-o").arg(out.join(library));
        link.args(units.iter().zip(&objects).filter(|(u, _)| u.library == library).map(|(_, o)| &o.path));
        // The runtime comes first: the kernels' libraries find it by its name.
        match library {
            "libcuda.so" => {
                link.args(["-shared", "-Wl,-soname,libcuda.so", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-ldl", "-lpthread"])
            }
            "layout" => link.arg(out.join("libcuda.so")).args(["-ldl", "-lpthread", "-lm"]),
            _ => link
                .arg("-shared")
                .arg(format!("-Wl,-soname,{library}"))
                .arg(out.join("libcuda.so"))
                .args(["-Wl,-z,defs", "-lm"]),
        };
        run(&mut link);
    }
    let layout = run(Command::new(out.join("layout")).env("LD_LIBRARY_PATH", &out));
    fs::write(out.join("layout.txt"), layout).expect("OUT_DIR is writable");
    if shared.is_none() {
        remove_stale(&out, &objects);
    }
}

/// Flags for what the processor that builds, and runs, has.
fn this_processor() -> &'static [&'static str] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
    {
        return SINCE_HASWELL;
    }
    &[]
}

/// Maps with as many threads as there are processors.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { break };
                    let result = work(item);
                    done.lock().expect("no compiler thread panicked").push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no compiler thread panicked");
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

fn preprocess(unit: &Unit, kept: &Path) -> Object {
    let is_kernel = unit.source.extension() == Some(OsStr::new("cu"));
    let preprocessed = |flags: &[&str]| {
        let mut command = compiler();
        command.args(flags).args(["-E", "-x", "c++", "-DLIST_KERNELS"]).arg(&unit.source);
        if is_kernel {
            command.args(["-include", "kernel/entry.h"]);
        }
        run(&mut command)
    };
    let (mut text, mut flags) = (preprocessed(&unit.flags), unit.flags.clone());
    if let Some(arch) = flags.iter().position(|f| f.starts_with("-D__CUDA_ARCH__") && *f != SM_80) {
        // Most kernels are the same for both architectures: they are compiled once.
        let later: Vec<_> = flags.iter().enumerate().map(|(i, f)| if i == arch { SM_80 } else { f }).collect();
        let other = preprocessed(&later);
        let own = own_text(&text);
        if own == own_text(&other) && !ARCHITECTURE_WORDS.iter().any(|w| own.contains(w)) {
            (text, flags) = (other, later);
        }
    }
    let mut hash = DefaultHasher::new();
    (&text, &flags, COMMON).hash(&mut hash);
    let stem = unit.source.file_stem().expect("a source has a name").to_string_lossy();
    let kernels = if is_kernel { kernels(&text, &unit.source) } else { Vec::new() };
    Object { path: kept.join(format!("{stem}-{:016x}.o", hash.finish())), kernels, flags }
}

/// What a kernel's text has beside ptx.cuh and the emulator's headers, by the preprocessor's line markers.
fn own_text(preprocessed: &str) -> String {
    let (mut own, mut inside) = (String::new(), false);
    for line in preprocessed.lines() {
        match line.strip_prefix("# ").and_then(|l| l.split('"').nth(1)) {
            Some(file) => {
                inside = file.contains("../kernels/") && !file.ends_with("ptx.cuh") || file.contains("tests/")
            }
            None if inside => own.extend([line, "\n"]),
            None => {}
        }
    }
    own
}

fn compile(unit: &Unit, object: &Object, out: &Path) {
    let name = object.path.file_stem().expect("named above").to_string_lossy();
    let mut source = unit.source.clone();
    if !object.kernels.is_empty() {
        source = out.join(format!("{name}.cpp"));
        let path = fs::canonicalize(&unit.source).expect("the kernel is there");
        let mut table = format!("#include \"{}\"\n#include \"entry.h\"\n", path.display());
        for (name, threads) in &object.kernels {
            table += &format!("KERNEL({name}, ({threads}))\n");
        }
        fs::write(&source, table).expect("OUT_DIR is writable");
    }
    // Renamed when it is whole: an interrupted build leaves no half object behind.
    let partial = object.path.with_extension(format!("{}.part", std::process::id()));
    run(compiler().args(&object.flags).args(["-x", "c++", "-c", "-o"]).arg(&partial).arg(&source));
    fs::rename(&partial, &object.path).expect("OUT_DIR is writable");
}

/// Name and launch bound of each kernel: `extern "C" __global__ void __launch_bounds__(N) NAME(`, spaced anyhow.
fn kernels(preprocessed: &str, source: &Path) -> Vec<(String, String)> {
    let code: Vec<&str> = preprocessed.lines().filter(|l| !l.starts_with('#')).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for part in code.split("__global__").skip(1) {
        let shape = (|| {
            let rest = part.trim_start().strip_prefix("void")?.trim_start();
            let (threads, rest) = match rest.strip_prefix("__launch_bounds__") {
                None => ("1024", rest),
                Some(rest) => {
                    let (inside, rest) = parenthesised(rest.trim_start())?;
                    (inside.split(',').next()?.trim(), rest)
                }
            };
            let name = rest.trim_start().split('(').next()?.trim();
            name.chars().all(|c| c.is_alphanumeric() || c == '_').then(|| (name.to_string(), threads.to_string()))
        })();
        let head = part.lines().next().unwrap_or_default();
        found.push(shape.unwrap_or_else(|| panic!("{}: no kernel declaration: __global__{head}", source.display())));
    }
    found
}

/// Splits `(a(b)c) rest` into `a(b)c` and ` rest`.
fn parenthesised(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return Some((text[..i].strip_prefix('(')?, &text[i + 1..]));
        }
    }
    None
}

fn compiler() -> Command {
    static COMPILER: Mutex<Option<cc::Tool>> = Mutex::new(None);
    let mut tool = COMPILER.lock().expect("finding the compiler does not panic twice");
    let tool = tool.get_or_insert_with(|| {
        cc::Build::new().cpp(true).opt_level(2).no_default_flags(true).cargo_metadata(false).get_compiler()
    });
    let mut command = tool.to_command();
    command.args(COMMON);
    command
}

fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| panic!("the emulator needs g++: {command:?}: {e}"));
    let (text, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}\n{errors}");
    text.into_owned()
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<_> = entries.filter(|p| p.extension() == Some(OsStr::new(extension))).collect();
    found.sort();
    found
}

fn remove_stale(out: &Path, objects: &[Object]) {
    for old in files(&out.to_string_lossy(), "o") {
        if !objects.iter().any(|o| o.path == old) {
            // What cannot be removed does no harm.
            let _ = fs::remove_file(old.with_extension("cpp"));
            let _ = fs::remove_file(old);
        }
    }
}
