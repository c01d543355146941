//! The machine code that is shipped, on all seven SMs: what it gives, in all orders.

use std::{collections::BTreeMap, sync::OnceLock};

use qrun_cuda::image::{self, Kind, Target};
use qrun_emulator::isa::{Module, disassemble};

use crate::isa::{
    harness::ORDERS,
    subjects::{SUBJECTS, Subject},
    trial::Trial,
};

/// SMs that have machine code in the archive.
pub const SMS: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];

/// A cubin, and what nvdisasm makes of it: most of the time that these tests take.
pub struct Cubin {
    pub image: Vec<u8>,
    listing: OnceLock<String>,
}

impl Cubin {
    pub fn listing(&self) -> &str {
        self.listing.get_or_init(|| disassemble(&self.image).unwrap_or_else(|why| panic!("{why}")))
    }

    pub fn parsed(&self) -> Module {
        Module::disassembled(&self.image, self.listing()).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// All modules of an SM by name, the same for all tests.
pub fn cubins(sm: u32) -> &'static BTreeMap<String, Cubin> {
    static ALL: [OnceLock<BTreeMap<String, Cubin>>; SMS.len()] = [const { OnceLock::new() }; SMS.len()];
    let i = SMS.iter().position(|&other| other == sm).expect("an SM with machine code");
    ALL[i].get_or_init(|| {
        let modules = image::modules(Target { kind: Kind::Cubin, sm }).expect("an archive with this part");
        modules.iter().map(|m| (m.name.clone(), Cubin { image: m.bytes.clone(), listing: OnceLock::new() })).collect()
    })
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
            let module = modules.entry(subject.module).or_insert_with(|| cubins(sm)[subject.module].parsed());
            if let Err(why) = judge(subject, module) {
                wrong.push(format!("sm_{sm} {}: {why}", subject.kernel));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
