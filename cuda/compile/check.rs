//! What the compiled kernels have to be, beside right.

use std::{fs, num::NonZeroUsize, path::Path, process::Command};

use anyhow::{Result, ensure};
use qrun_cuda::image::{self, Kind};

use crate::{
    cache::sha256,
    log::Resources,
    make::{self, Job, Module},
    record::Record,
    tools::Tools,
};

/// Most registers per thread by the kernels' first word: what a family may use before it keeps too few warps on
/// an SM to hide its loads. 64 K registers hold 16 warps of 128, 12 of 168 and 8 of 255. Attention of several rows, or over heads
/// beyond 128, has shared memory for 8 warps on most SMs.
const REGISTERS: [(&str, u32); 11] = [
    ("gemm", 255),
    ("product_8", 168),
    ("product_16", 255),
    ("norm_product_q2_k", 168),
    ("norm_product", 128),
    ("attention_rows_f16_64", 128),
    ("attention_rows_f16_128", 128),
    ("attention_rows_q8_0_64", 128),
    ("attention_rows_q8_0_128", 128),
    ("attention", 255),
    ("", 128),
];

/// The jobs that are compiled where one of `n` is, which depend on nothing but the archive's hash.
pub fn choose(mut jobs: Vec<Job>, n: NonZeroUsize, archive: &str) -> Vec<Job> {
    let place = |(target, source): &Job| sha256(format!("{archive} {target} {:?}", source.file_name()).as_bytes());
    jobs.sort_by_cached_key(place);
    jobs.truncate(jobs.len().div_ceil(n.get()));
    jobs
}

/// What of the committed archive and its record is not what the sources give, as far as these modules show it.
///
/// # Errors
/// The archive is damaged.
pub fn against(modules: &[Module], archive: &[u8], sources: &str, recorded: &Record) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, is: bool| {
        if !is {
            wrong.push(format!("{what} is not what the sources give: run `kernels build` and commit what it makes"));
        }
    };
    same("cuda/kernels.lzma", sha256(archive) == recorded.sha256);
    same("cuda/sass.json", sources == recorded.sources);
    for part in image::parts(archive)? {
        let images = part.unpack(archive)?;
        for module in modules.iter().filter(|m| m.target == part.target) {
            same(&format!("{} for {}", module.image.name, part.target), images.contains(&module.image));
            for r in &module.resources {
                let registers = recorded.registers.get(&r.kernel).and_then(|row| row.get(&part.target.sm));
                same(&format!("cuda/sass.json, {} for {}", r.kernel, part.target), registers == Some(&r.registers));
            }
        }
    }
    Ok(wrong)
}

/// What is wrong with each module.
///
/// # Errors
/// None of its own.
pub fn each(modules: &[Module], tools: &Tools, scratch: &Path) -> Result<Vec<String>> {
    let found = make::on_all_processors(modules, |module| match module.target.kind {
        Kind::Cubin => Ok(machine_code(module)),
        Kind::Ptx => Ok(ptx(module, tools, scratch).err().map(|e| format!("{e:#}")).into_iter().collect()),
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// Machine code: the ELF version that 12.x drivers read, no spills, registers below their cap.
pub fn machine_code(module: &Module) -> Vec<String> {
    let Module { target, image, resources } = module;
    let mut wrong = Vec::new();
    // OS/ABI 0x33 with version 7 is what every toolkit 12.x writes up to sm_90; 13.x writes what no 12.x driver reads.
    let abi = (image.bytes.get(7).copied(), image.bytes.get(8).copied());
    if target.sm <= 90 && abi != (Some(0x33), Some(7)) {
        wrong.push(format!("{} for {target}: expected ELF OS/ABI 0x33 version 7, found {abi:x?}", image.name));
    }
    wrong.extend(resources.iter().flat_map(|r| needs(r, &target.to_string())));
    wrong
}

fn needs(r: &Resources, target: &str) -> Vec<String> {
    let cap = REGISTERS.iter().find(|(family, _)| r.kernel.starts_with(family)).map_or(0, |(_, cap)| *cap);
    let mut wrong = Vec::new();
    if r.spills > 0 {
        wrong.push(format!("{} on {target}: {} bytes of spills, expected none", r.kernel, r.spills));
    }
    if r.registers > cap {
        wrong.push(format!("{} on {target}: {} registers, at most {cap} are allowed", r.kernel, r.registers));
    }
    wrong
}

/// PTX through the assembler of CUDA 12.4, the oldest driver's, which refuses what the claimed ISA version lacks.
///
/// # Errors
/// The module is no PTX, ptxas is missing or refuses it, or `scratch` cannot be written.
pub fn ptx(module: &Module, tools: &Tools, scratch: &Path) -> Result<()> {
    let Module { target, image, .. } = module;
    ensure!(target.kind == Kind::Ptx, "{target} is not PTX");
    fs::create_dir_all(scratch)?;
    let text = scratch.join(format!("{}.{target}.ptx", image.name));
    fs::write(&text, image.bytes.strip_suffix(b"\0").unwrap_or(&image.bytes))?;
    let arch = format!("-arch=sm_{}", target.sm);
    crate::tools::run(Command::new(tools.ptxas()?).arg(arch).arg(&text).arg("-o").arg(text.with_extension("cubin")))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use qrun_cuda::image::{Image, Target};

    use super::*;

    #[test]
    fn one_of_four_is_another_one_with_each_archive() {
        let jobs = |folder: &str| -> Vec<Job> {
            let target = |sm| Target { kind: Kind::Cubin, sm };
            (0..41).map(|i| (target(75 + i % 2), format!("{folder}/{i}.cu").into())).collect()
        };
        let names = |folder, archive| -> Vec<_> {
            let chosen = choose(jobs(folder), NonZeroUsize::new(4).expect("not 0"), archive);
            chosen.iter().map(|(target, source)| (*target, source.file_name().map(ToOwned::to_owned))).collect()
        };
        assert_eq!(names("a", "00").len(), 11);
        assert_eq!(names("a", "00"), names("b", "00"));
        assert_ne!(names("a", "00"), names("a", "01"));
    }

    #[test]
    fn spills_registers_and_the_elf_version_are_looked_at() {
        let resources = |kernel: &str, registers, spills| Resources {
            kernel: kernel.into(),
            registers,
            spills,
            stack: 0,
            shared: 0,
        };
        let module = |abi: u8, resources| Module {
            target: Target { kind: Kind::Cubin, sm: 75 },
            image: Image {
                name: "x".into(),
                bytes: vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0x33, abi],
                kind: Kind::Cubin,
            },
            resources,
        };
        assert_eq!(
            machine_code(&module(7, vec![resources("gemv_q4_k", 128, 0), resources("gemm_q4_k", 200, 0)])),
            [""; 0]
        );
        assert_eq!(machine_code(&module(8, vec![])).len(), 1);
        assert_eq!(machine_code(&module(7, vec![resources("gemv_q4_k", 129, 4)])).len(), 2);
    }
}
