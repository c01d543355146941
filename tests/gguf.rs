//! GGUF in and out: what the writer puts down the reader gives back, and hostile files are refused.

mod fixtures;
mod hostile;
mod mutants;
mod round_trip;
mod shards;

use std::path::Path;

use qrun_quant::{Bytes, GgmlType, Gguf, Result, gguf::write::Header};

/// Reads a file from memory under the name `bad.gguf`.
fn read(bytes: &[u8]) -> Result<Gguf> {
    Gguf::from_bytes("bad.gguf", Bytes::new(bytes.to_vec()))
}

/// Writes a header with data of zeros.
fn write(header: &Header, path: &Path) {
    let mut writer = header.create(path).unwrap();
    for t in &header.tensors {
        writer.write(&vec![0; t.ty.bytes_of(t.shape.iter().product::<u64>() as usize)]).unwrap();
    }
    writer.finish().unwrap();
}

/// A small file with strings, arrays and two tensors of 16 bytes.
fn small() -> Vec<u8> {
    let mut header = Header::new();
    header.set("general.architecture", "llama");
    header.set("general.alignment", 8u32);
    header.set("tokens", qrun_quant::gguf::Array::of_strings(["a", "ż"]));
    header.set("nested", qrun_quant::gguf::Array::of_arrays(&[qrun_quant::gguf::Array::of(&[1u16])]));
    header.tensor("a", GgmlType::F32, &[4]);
    header.tensor("b", GgmlType::F16, &[2, 4]);
    let mut file = Vec::new();
    let mut writer = header.write_to("small".as_ref(), &mut file).unwrap();
    writer.write(&[1; 32]).unwrap();
    writer.finish().unwrap();
    file
}
