//! Everything the writer can put down comes back as it was.

use qrun_quant::{
    Bytes, GgmlType, Gguf,
    gguf::{Array, Value, write::Header},
};

/// One value of every type, with its limits.
fn values() -> Vec<Value> {
    vec![
        u8::MAX.into(),
        i8::MIN.into(),
        u16::MAX.into(),
        i16::MIN.into(),
        u32::MAX.into(),
        i32::MIN.into(),
        u64::MAX.into(),
        i64::MIN.into(),
        1.5f32.into(),
        f64::MIN_POSITIVE.into(),
        true.into(),
        false.into(),
        "".into(),
        "zażółć 🦀\0".into(),
        Array::of(&[1u8, 255]).into(),
        Array::of(&[-1i8, 127]).into(),
        Array::of(&[1u16, 65535]).into(),
        Array::of(&[-1i16]).into(),
        Array::of(&[7u32; 3]).into(),
        Array::of(&[-7i32; 3]).into(),
        Array::of(&[u64::MAX]).into(),
        Array::of(&[i64::MIN]).into(),
        Array::of(&[0.1f32, f32::INFINITY]).into(),
        Array::of(&[0.1f64]).into(),
        Array::of(&[true, false]).into(),
        Array::of::<u32>(&[]).into(),
        Array::of_strings(["", "a", "▁b"]).into(),
        Array::of_strings::<&str>([]).into(),
        Array::of_arrays(&[Array::of(&[1u32]), Array::of_strings(["x"]), Array::of_arrays(&[Array::of(&[true])])])
            .into(),
    ]
}

/// A file with every value type and every tensor type; data of a tensor is its index as bytes.
pub fn everything(version: u32, alignment: u32) -> (Header, Vec<u8>) {
    let mut header = Header { version, ..Header::new() };
    header.set("general.alignment", alignment);
    for (i, v) in values().into_iter().enumerate() {
        header.set(format!("test.{i}"), v);
    }
    for ty in GgmlType::all() {
        header.tensor(format!("{ty}.weight"), ty, &[256, 3]);
    }
    for dims in 1..=4 {
        header.tensor(format!("dims{dims}"), GgmlType::F16, &[3, 5, 1, 2][..dims]);
    }
    let mut file = Vec::new();
    let mut writer = header.write_to("test".as_ref(), &mut file).unwrap();
    for (i, t) in header.tensors.iter().enumerate() {
        let n = t.ty.bytes_of(t.shape.iter().product::<u64>() as usize);
        writer.write(&vec![i as u8; n]).unwrap();
    }
    writer.finish().unwrap();
    (header, file)
}

#[test]
fn every_type_comes_back() {
    for (version, alignment) in [(2, 32), (3, 32), (3, 8), (3, 4096)] {
        let (header, file) = everything(version, alignment);
        let gguf = Gguf::from_bytes("test", Bytes::new(file)).unwrap();
        assert_eq!((gguf.version(), gguf.alignment()), (version, alignment.into()));
        assert_eq!(gguf.metadata().len(), header.metadata.len());
        for ((k, v), (key, value)) in gguf.metadata().iter().zip(&header.metadata) {
            assert_eq!((k, v), (key, value));
        }
        assert_eq!(gguf.tensors().len(), header.tensors.len());
        for (i, (t, want)) in gguf.tensors().iter().zip(&header.tensors).enumerate() {
            assert_eq!((&t.name, t.ty, &t.shape), (&want.name, want.ty, &want.shape));
            assert!(t.data.len() == t.ty.bytes_of(t.len()) && t.data.iter().all(|&b| b == i as u8), "{}", t.name);
        }
    }
}

#[test]
fn elements_come_back() {
    let inner = [Array::of(&[1u32, 2]), Array::of_strings(["x", ""]), Array::of_arrays(&[Array::of(&[true])])];
    let outer = Array::of_arrays(&inner);
    assert!(outer.arrays().eq(inner.iter().cloned()));
    assert!(inner[1].strings().eq(["x", ""]) && inner[0].numbers().eq([1.0, 2.0]));
    assert!(inner[0].strings().next().is_none() && inner[0].arrays().next().is_none());
    assert!(inner[1].numbers().next().is_none());
}

#[test]
fn a_reader_passes_its_values_through() {
    let (header, file) = everything(3, 32);
    let gguf = Gguf::from_bytes("test", Bytes::new(file.clone())).unwrap();
    let copy = Header { metadata: gguf.metadata().to_vec(), ..header };
    let mut again = Vec::new();
    let mut writer = copy.write_to("test".as_ref(), &mut again).unwrap();
    // Chunks of an odd size cross the borders of tensors.
    let data: Vec<u8> = gguf.tensors().iter().flat_map(|t| t.data.to_vec()).collect();
    data.chunks(97).for_each(|c| writer.write(c).unwrap());
    writer.finish().unwrap();
    assert!(file == again, "a copy through reader and writer is the same file");
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let start = |f: fn(&mut Header)| {
        let mut header = Header::new();
        f(&mut header);
        header.write_to("out.gguf".as_ref(), std::io::sink()).map(|_| ()).unwrap_err().to_string()
    };
    type Change = fn(&mut Header);
    let cases: [(Change, &str); 7] = [
        (|h| h.version = 1, "out.gguf: header: expected GGUF version 2 or 3, found version 1"),
        (
            |h| h.set("general.alignment", 24u32),
            "out.gguf: key general.alignment: expected a power of two from 8 to 1048576, found 24",
        ),
        (
            |h| h.tensor("a", GgmlType::Q8_0, &[33, 2]),
            "out.gguf: tensor a: expected rows of a multiple of 32 elements (Q8_0), found [33, 2]",
        ),
        (|h| h.tensor("a", GgmlType::F32, &[]), "out.gguf: tensor a: expected 1 to 4 dimensions, found 0"),
        (|h| h.tensor("a", GgmlType::F32, &[4, 0]), "out.gguf: tensor a: expected dimensions above zero, found [4, 0]"),
        (
            |h| h.tensor("a", GgmlType::F32, &[1 << 32, 1 << 32]),
            "out.gguf: tensor a: expected a size below 2^64 bytes, found dimensions [4294967296, 4294967296]",
        ),
        (
            |h| (0..2).for_each(|_| h.tensor("a", GgmlType::F32, &[1])),
            "out.gguf: tensor a: expected each tensor name once, found the name a second time",
        ),
    ];
    for (make, text) in cases {
        assert_eq!(start(make), text);
    }
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let mut header = Header::new();
    header.tensor("a", GgmlType::F32, &[4]);
    let mut writer = header.create(&path).unwrap();
    writer.write(&[0; 12]).unwrap();
    let e = writer.finish().unwrap_err().to_string();
    assert!(e.ends_with("model.gguf: tensor a: expected 4 more bytes of data, found the end"), "{e}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let mut writer = header.create(&path).unwrap();
    writer.write(&[0; 16]).unwrap();
    let e = writer.write(&[0]).unwrap_err().to_string();
    assert!(e.ends_with("end of the data: expected no more data than was declared, found 1 bytes more"), "{e}");
    writer.finish().unwrap();
    assert_eq!(Gguf::open(&path).unwrap().tensors().len(), 1);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
