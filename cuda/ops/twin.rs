//! Compares what the host and the kernels both write down: the structs that kernels take, and constants.

/// The number that the kernels have under a name (cuda/emulator/kernel/layout.cpp lists the names).
#[track_caller]
pub fn number(name: &str) -> usize {
    let line = qrun_emulator::LAYOUT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("cuda/emulator/kernel/layout.cpp does not print {name}"));
    line.parse().unwrap_or_else(|e| panic!("{name} {line}: {e}"))
}

/// `constants([("MAX_PARTS", 64)])`: each constant has the host's value in the kernels.
#[track_caller]
pub fn constants<const N: usize>(ours: [(&str, usize); N]) {
    for (name, value) in ours {
        assert_eq!(value, number(name), "{name} on the host and in the kernels");
    }
}

/// `fields!(Rust as "CUDA" { field, field as "other name", … })`, all fields: both structs have the same size, and each field
/// the same offset.
macro_rules! fields {
    ($rust:ident as $cuda:literal { $($field:ident $(as $other:literal)?),+ $(,)? }) => {{
        // Does not compile where a field is left out.
        let _all = |$rust { $($field: _),+ }: $rust| ();
        assert_eq!(size_of::<$rust>(), $crate::ops::twin::number($cuda), "bytes of {}", $cuda);
        $(
            let name = [$cuda, ".", $crate::ops::twin::fields!(@name $field $($other)?)].concat();
            assert_eq!(std::mem::offset_of!($rust, $field), $crate::ops::twin::number(&name), "offset of {name}");
        )+
    }};
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $other:literal) => { $other };
}
pub(crate) use fields;
