//! The machine code that is shipped, on all seven SMs: what it gives, in all orders.

use qrun_cuda::image::{self, Kind, Target};
use qrun_emulator::isa::{Module, disassemble};

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
        for subject in SUBJECTS {
            let image = cubin(sm, subject.module);
            let module = disassemble(&image)
                .and_then(|listing| Module::disassembled(&image, &listing).map_err(|error| error.to_string()));
            let result = module.and_then(|module| judge(subject, &module));
            if let Err(why) = result {
                wrong.push(format!("sm_{sm} {}: {why}", subject.kernel));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
