//! A file never makes the reader allocate what it was told to: peak memory is counted.
//!
//! A unit test, because `qrun`, which the integration tests link, has an allocator of its own.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use super::{Array, write::Header};
use crate::{Bytes, GgmlType, Gguf};

/// The system's allocator, with a count of what this thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes that reading `file` holds beyond the file itself, and whether it could be read.
fn peak(file: &[u8]) -> (isize, bool) {
    let bytes = Bytes::new(file.to_vec());
    let before = HELD.get();
    PEAK.set(before);
    let read = Gguf::from_bytes("test", bytes).is_ok();
    (PEAK.get() - before, read)
}

/// A small file and one with more of everything.
fn seeds() -> [Vec<u8>; 2] {
    [2u64, 40].map(|n| {
        let mut header = Header::new();
        header.set("strings", Array::of_strings((0..n).map(|i| format!("token {i}"))));
        header.set("arrays", Array::of_arrays(&[Array::of(&[1u16, 2]), Array::of_strings(["x"])]));
        (0..n).for_each(|i| header.set(format!("key.{i}"), i));
        (0..n).for_each(|i| header.tensor(format!("tensor.{i}"), GgmlType::F32, &[4, 1 + i % 3]));
        let mut file = Vec::new();
        let mut writer = header.write_to("test".as_ref(), &mut file).unwrap();
        header.tensors.iter().for_each(|t| writer.write(&vec![0; 16 * t.shape[1] as usize]).unwrap());
        writer.finish().unwrap();
        file
    })
}

#[test]
fn memory_stays_below_the_file() {
    // What a small file may cost: the tables of a few dozen entries, and error texts.
    const BASE: isize = 16 << 10;
    for mut file in seeds() {
        // Each 64-bit word of the header becomes a huge count in turn.
        for at in 0..file.len().min(4096) - 8 {
            for n in [u64::MAX, 1 << 63, 1 << 32, 1 << 16] {
                let saved: [u8; 8] = *file[at..].first_chunk().unwrap();
                file[at..at + 8].copy_from_slice(&n.to_le_bytes());
                let (peak, _) = peak(&file);
                assert!(peak <= file.len() as isize + BASE, "{n} at {at}: {peak} bytes for {} of file", file.len());
                file[at..at + 8].copy_from_slice(&saved);
            }
        }
    }
}

#[test]
fn a_vocabulary_is_not_copied() {
    let mut header = Header::new();
    header.set("tokenizer.ggml.tokens", Array::of_strings((0..262_144).map(|i| format!("token{i}"))));
    header.set("tokenizer.ggml.scores", Array::of(&vec![0f32; 262_144]));
    let mut file = Vec::new();
    header.write_to("test".as_ref(), &mut file).unwrap().finish().unwrap();
    let (peak, read) = peak(&file);
    assert!(read && peak < 4096, "{peak} bytes for a vocabulary of {} bytes", file.len());
}

#[test]
fn the_smallest_entries_cost_a_bounded_multiple() {
    // As many of the smallest keys and tensors as are allowed.
    let mut header = Header::new();
    header.metadata = (0..16_384).map(|i| (format!("{i:x}"), 0u8.into())).collect();
    header.set("general.alignment", 8u32);
    header.metadata.swap_remove(0);
    (0..65_536).for_each(|i| header.tensor(format!("{i:x}"), GgmlType::F16, &[1]));
    let mut file = Vec::new();
    let mut writer = header.write_to("test".as_ref(), &mut file).unwrap();
    writer.write(&[0; 2 * 65_536]).unwrap();
    writer.finish().unwrap();
    let (peak, read) = peak(&file);
    assert!(read && peak < 16 * file.len() as isize, "{peak} bytes for {}", file.len());
    assert!(peak < 64 << 20, "{peak} bytes");
}
