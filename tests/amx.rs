//! The tests of CPU products once more, with AMX: its instructions are executed in software where the processor has none. They
//! are in a process of their own, for all of it has to know of that.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::print_stdout, clippy::print_stderr)] // As in main.rs.

mod blocks;
mod cpu;
#[path = "amx/machine.rs"]
mod machine;

use qrun_quant::{
    Bytes, GgmlType,
    cpu::{Activations, Arithmetic, Isa, Job, Matrix, matmul, par::Pool},
};

/// Runs before `main`, and so before anything has asked for instruction sets.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    if !Isa::available().contains(&Isa::Amx) {
        machine::install();
        // SAFETY: the handler executes them.
        unsafe { Isa::emulate_amx() };
    }
}

/// Whether AMX is here, emulated or not: the vectors around it are those of AVX-512.
fn is_here() -> bool {
    let is_here = Isa::available().contains(&Isa::Amx);
    assert_eq!(is_here, Isa::available().contains(&Isa::Avx512Vnni));
    assert_eq!(is_here, Isa::best() == Isa::Amx);
    is_here
}

/// Products of tiles per block of 32 columns, 16 rows and 16 tokens: of few tokens none.
#[test]
fn many_tokens_are_multiplied_by_tiles() {
    let (rows, cols) = (40, 512);
    if !is_here() || !machine::is_installed() {
        return println!("no AMX is emulated here");
    }
    for (ty, tokens, per_block) in [
        (GgmlType::Q8_0, 16, 0),
        (GgmlType::Q8_0, 17, 1),
        (GgmlType::Q4_K, 64, 1),
        (GgmlType::Q6_K, 50, 2),
        (GgmlType::Q2_K, 50, 2),
        (GgmlType::BF16, 12, 0),
        (GgmlType::BF16, 13, 4),
        (GgmlType::F16, 40, 4),
        (GgmlType::F32, 40, 0),
    ] {
        let w = Matrix::new(ty, rows, cols, Bytes::new(vec![0; rows * ty.bytes_of(cols)]));
        let (products, is_configured) = Pool::new(1).expect("a thread").install(|| {
            let (before, mut y) = (machine::products(), vec![f32::NAN; tokens * rows]);
            let mut activations = Activations::new(Arithmetic::Fast);
            matmul(&mut activations, &vec![1.0; tokens * cols], &mut [Job { w: &w, y: &mut y }]);
            (machine::products() - before, machine::is_configured())
        });
        let blocks = rows.div_ceil(16) * cols / 32 * tokens.div_ceil(16);
        assert_eq!(products, per_block * blocks, "{ty}, {tokens} tokens");
        assert!(!is_configured, "{ty}: registers are released");
    }
}
