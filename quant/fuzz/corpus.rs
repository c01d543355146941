//! Writes the seeds of the corpus: `cargo run --bin corpus` in quant/fuzz.

use std::{fs, path::Path};

use qrun_quant::{
    GgmlType, Result,
    gguf::{Array, Value, write::Header},
};

fn main() -> Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/gguf");
    let values: [(&str, Value); 9] = [
        ("scalar-u8", 7u8.into()),
        ("scalar-bool", true.into()),
        ("scalar-f64", 0.5f64.into()),
        ("string", "▁text".into()),
        ("alignment", 8u32.into()),
        ("array-u16", Array::of(&[1u16, 2]).into()),
        ("array-string", Array::of_strings(["", "a"]).into()),
        ("array-array", Array::of_arrays(&[Array::of(&[1i8]), Array::of_arrays(&[])]).into()),
        ("shard", 3u16.into()),
    ];
    for (name, value) in values {
        let key = match name {
            "alignment" => "general.alignment",
            "shard" => "split.count",
            _ => "key",
        };
        let mut header = Header::new();
        header.set(key, value);
        save(&dir.join(name), &header)?;
    }
    for ty in GgmlType::all() {
        let mut header = Header::new();
        header.tensor("a", ty, &[256]);
        header.tensor("b", ty, &[256, 1, 2]);
        save(&dir.join(format!("tensors-{ty}")), &header)?;
    }
    save(&dir.join("version-2"), &Header { version: 2, ..Header::new() })
}

fn save(path: &Path, header: &Header) -> Result<()> {
    let mut out = Vec::new();
    let mut writer = header.write_to(path, &mut out)?;
    for t in &header.tensors {
        writer.write(&vec![1; t.ty.bytes_of(t.shape.iter().product::<u64>() as usize)])?;
    }
    writer.finish()?;
    fs::write(path, out).map_err(|e| qrun_quant::Error::new(path, "file", "a writable place", e.to_string()))
}
