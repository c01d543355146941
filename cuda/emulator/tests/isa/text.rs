//! PTX as text: what is read out of it, and what is refused.

use qrun_emulator::isa::Module;

fn parse(code: &str) -> Result<Module, String> {
    let module = ".version 8.0\n.target sm_75\n.address_size 64\n.global .align 4 .u32 X = -1;\n";
    let head = ".visible .entry k(\n\t.param .align 8 .b8 k_param_0[12]\n)\n.maxntid 64, 2, 1\n.minnctapersm 4\n";
    let text = format!("{module}{head}{{\n{code}\n\tret;\n}}\n");
    Module::parse(&text).map_err(|e| e.to_string())
}

#[test]
fn a_kernel_and_its_scopes() {
    let code = [
        "\t.reg .pred %p<2>;",
        "\t.reg .b32 \t%r<3>;",
        "\t.shared .align 16 .b8 tile[20];",
        "\t// a comment; with a semicolon",
        "$L_1:",
        "\tmov.u32 \t%r1, %tid.x;",
        "\t{ ",
        "\t.reg .b64 %r1; mov.u64 %r1, tile; ",
        "\t}",
        "\t@%p1 bra $L_1;",
    ];
    let module = parse(&code.join("\n")).expect("PTX");
    let kernel = module.kernel("k").expect("k");
    assert_eq!((module.sm, kernel.max_threads, kernel.param_bytes, kernel.shared_bytes), (75, 128, 12, 20));
    let texts: Vec<&str> = kernel.listing().map(|(_, text)| text).collect();
    assert_eq!(texts, ["mov.u32 %r1, %tid.x", "mov.u64 %r1, tile", "@%p1 bra $L_1", "ret"]);
    assert_eq!(kernel.listing().next().expect("an instruction").0, 16);
}

#[test]
fn a_half_that_nothing_writes_is_taken() {
    let code = [
        ".reg .b32 %r<4>; .reg .b64 %rd<5>;",
        "mov.u32 %r1, %tid.x;",
        "mov.b64 %rd1, {%r1, %r2};",
        "cvt.s64.s32 %rd2, %rd1;",
        "mov.b64 %rd3, {%r1, %r1};",
        "mov.b64 %rd4, {%r1, %r3};",
        "add.s64 %rd4, %rd4, %rd3;",
    ];
    parse(&code.join("\n")).expect("PTX");
}

#[test]
fn what_is_not_known_is_refused_with_its_line() {
    for (code, what) in [
        (".reg .b32 %r<2>;\n\tfoo.bar.f32 %r1, %r1;", "line 12: `foo.bar.f32 %r1, %r1`: not an instruction"),
        (".reg .b32 %r<2>;\n\tadd.s32 %r1, %r2, 1;", "%r2 is not a"),
        (".reg .b32 %r<2>;\n\tadd.s32 %r1, %r1;", "2 operands, the instruction has 3"),
        (
            ".reg .b32 %r<2>; .reg .b64 %d<2>;\n\tadd.s64 %d1, %d1, %r1;",
            "%r1 is 32 bits, the instruction takes 64 bits",
        ),
        (".reg .b64 %d<2>;\n\tmov.u64 %d1, X;", "X is not a value"),
        ("\tbra $L_9;", "no instruction behind label $L_9"),
        (".reg .b32 %r<2>;\n\tld.global.u32 %r1, [k_param_0];", "lies in another memory"),
        (
            ".reg .b32 %r<5>;\n\tmma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1}, {%r1}, {%r3}, {%r1,%r2};",
            "1 registers where",
        ),
    ] {
        let error = parse(code).expect_err(code);
        assert!(error.contains(what), "{error}\nexpected: {what}");
    }
    assert!(
        Module::parse("ELF").is_err()
            && Module::parse("").is_err()
            && Module::parse(".target sm_75\n.visible .entry k()\n{\n").is_err()
    );
}
