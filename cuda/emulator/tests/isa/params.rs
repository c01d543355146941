//! Parameters: every load of them, through the name and through an address, and structs of another size.

use crate::isa::harness::{Job, Memory};

/// Loads of parameters, as coverage.rs writes shapes.
pub static LOADS: &[(&str, &str)] = &[
    ("ld.param.f32", "f"),
    ("ld.param.s32", "l"),
    ("ld.param.u32", "r"),
    ("ld.param.u64", "l"),
    ("ld.param.v2.f32", "{f,f}"),
    ("ld.param.v2.u32", "{r,r}"),
];

pub fn shapes() -> impl Iterator<Item = String> {
    let addresses = ["[l]", "[l+#]", "[P]", "[P+#]"];
    LOADS.iter().flat_map(move |(op, to)| addresses.map(|address| format!("{op} {to},{address}")))
}

/// A kernel that loads from one place in its parameters in both ways, and stores what it got behind the address in
/// the first 8 bytes.
fn text(op: &str, to: &str, at: usize) -> String {
    let registers = |first: usize| {
        let name = to.trim_matches(['{', '}']).chars().next().expect("a class");
        let name = if name == 'l' { "rd" } else { &name.to_string() };
        match to.starts_with('{') {
            true => (format!("{{%{name}{first}, %{name}{}}}", first + 1), name.to_string(), 2),
            false => (format!("%{name}{first}"), name.to_string(), 1),
        }
    };
    let mut body = String::new();
    for (way, (first, address)) in
        [(20, format!("[k_param_0+{at}]")), (30, format!("[%rd2+{at}]"))].into_iter().enumerate()
    {
        let (names, class, count) = registers(first);
        body += &format!("{op} {names}, {address};\n");
        for i in 0..count {
            let place = 16 * way + 4 * i;
            body += &match class.as_str() {
                "rd" => format!("st.global.u64 [%rd1+{place}], %rd{first};\n"),
                "f" => format!("st.global.f32 [%rd1+{place}], %f{};\n", first + i),
                _ => format!("st.global.u32 [%rd1+{place}], %r{};\n", first + i),
            };
        }
    }
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n.param .align 8 .b8 k_param_0[48]\n)\n\
         .maxntid 32, 1, 1\n{{\n.reg .b32 %r<40>;\n.reg .f32 %f<40>;\n.reg .b64 %rd<40>;\n\
         ld.param.u64 %rd1, [k_param_0];\ncvta.to.global.u64 %rd1, %rd1;\nmov.b64 %rd2, k_param_0;\n{body}ret;\n}}\n"
    )
}

#[test]
fn parameters_are_loaded_by_name_and_by_address() {
    for (op, to) in LOADS {
        for at in [8, 16, 40] {
            let mut memory = Memory::default();
            let out = memory.put(&[0u32; 8]);
            let mut params: Vec<u8> = (0..48).map(|i| 0x90 + i).collect();
            params[..8].copy_from_slice(&out.to_le_bytes());
            let source = text(op, to, at);
            Job::new(&source, 32, &params).run(&memory).unwrap_or_else(|e| panic!("{op}: {}\n{source}", e.report));
            let word = |at: usize| u32::from_le_bytes(params[at..at + 4].try_into().expect("four bytes"));
            let expected = match *op {
                "ld.param.s32" => [word(at), u32::MAX],
                "ld.param.f32" | "ld.param.u32" => [word(at), 0],
                _ => [word(at), word(at + 4)],
            };
            let found = memory.get::<u32>(out);
            assert_eq!([found[0], found[1]], expected, "{op} by name");
            assert_eq!([found[4], found[5]], expected, "{op} by address");
        }
    }
}

#[test]
fn parameters_of_another_size_are_refused() {
    let mut memory = Memory::default();
    let out = memory.put(&[0u32; 8]);
    let source = text("ld.param.u32", "r", 8);
    for bytes in [0, 40, 47, 49, 56] {
        let mut params = vec![0; bytes];
        params.iter_mut().zip(out.to_le_bytes()).for_each(|(p, b)| *p = b);
        let report = Job::new(&source, 32, &params).fault(&memory).report;
        assert!(report.contains("48") && report.contains(&bytes.to_string()), "{report}");
    }
}

#[test]
fn a_load_past_the_parameters_is_refused() {
    let mut memory = Memory::default();
    let out = memory.put(&[0u32; 8]);
    let params: Vec<u8> = out.to_le_bytes().into_iter().chain([0; 40]).collect();
    for (op, to, at) in [("ld.param.u32", "r", 48), ("ld.param.u64", "l", 44), ("ld.param.v2.u32", "{r,r}", 44)] {
        Job::new(&text(op, to, at), 32, &params).fault(&memory);
    }
}
