//! The machine code that is shipped, on all seven SMs: what it gives, in all orders.

use std::collections::BTreeMap;

use qrun_cuda::image::{self, Kind, Target};
use qrun_emulator::isa::Module;

use crate::isa::{
    harness::ORDERS,
    subjects::{SUBJECTS, Subject},
    trial::Trial,
};

/// SMs that have machine code in the archive.
pub const SMS: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];

/// A module's cubin.
pub fn cubin(sm: u32, module: &str) -> Vec<u8> {
    let modules = image::modules(Target { kind: Kind::Cubin, sm }).expect("an archive with this part");
    modules.into_iter().find(|m| m.name == module).expect("a module of this name").bytes
}

/// Runs it in the orders until something is wrong.
pub fn judge(subject: &Subject, module: &Module) -> Result<(), String> {
    ORDERS.iter().try_for_each(|&order| {
        let judged = (subject.attempt)(&Trial::new(module, subject.kernel, order));
        judged.map_err(|wrong| format!("{order:?}: {wrong}"))
    })
}

#[test]
#[ignore = "reads machine code with nvdisasm: `cargo run -p qrun-kernels -- check --install` puts it into target/nvrtc"]
fn shipped_machine_code_gives_what_it_has_to() {
    let mut wrong = Vec::new();
    for sm in SMS {
        let mut modules: BTreeMap<&str, Module> = BTreeMap::new();
        for subject in SUBJECTS {
            let module = modules.entry(subject.module).or_insert_with(|| {
                Module::cubin(&cubin(sm, subject.module)).unwrap_or_else(|e| panic!("sm_{sm}: {e}"))
            });
            if let Err(why) = judge(subject, module) {
                wrong.push(format!("sm_{sm} {}: {why}", subject.kernel));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
