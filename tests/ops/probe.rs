//! What measures a machine has to do what it says that it measures.

use qrun_cuda::ops::probe::{self, LINK, SUMS};
use qrun_emulator::Config;

use crate::harness::{Device, Random, everywhere};

/// Elements and blocks: less than a block, ragged, several turns of the unrolled loop.
const CASES: [(usize, u32); 5] = [(1, 1), (255, 1), (1025, 3), (2051, 1), (9000, 2)];

fn elements(n: usize) -> Vec<[u32; 4]> {
    let mut random = Random::new(n as u64);
    (0..n).map(|_| [(); 4].map(|()| random.next() as u32)).collect()
}

/// As numbers that f32 holds exactly.
fn halves(words: &[u32]) -> Vec<f32> {
    words.iter().flat_map(|w| [(w >> 16) as f32, (w & 0xffff) as f32]).collect()
}

#[test]
fn reads_every_element_once() {
    for (n, blocks) in CASES {
        let values = elements(n);
        let run = |d: &Device| {
            let (from, sums) = (d.buffer(&values), d.empty::<u32>(blocks as usize * SUMS));
            probe::read(&d.stream, blocks, from.ptr, n as u32, sums.ptr).expect("a launch");
            halves(&[d.read(&sums).into_iter().fold(0, u32::wrapping_add)])
        };
        let sum = values.iter().fold(0u32, |sum, v| sum.wrapping_add(v[0] ^ v[1] ^ v[2] ^ v[3]));
        everywhere(run, |found| assert_eq!(found, halves(&[sum]), "{n} elements, {blocks} blocks"));
    }
}

#[test]
fn copies() {
    for (n, blocks) in CASES {
        let values = elements(n);
        let run = |d: &Device| {
            let (from, to) = (d.buffer(&values), d.empty::<[u32; 4]>(n));
            probe::copy(&d.stream, blocks, from.ptr, to.ptr, n as u32).expect("a launch");
            halves(d.read(&to).as_flattened())
        };
        everywhere(run, |found| assert_eq!(found, halves(values.as_flattened()), "{n} elements, {blocks} blocks"));
    }
}

#[test]
fn links_add_one_each() {
    let values = elements(LINK);
    let expected: Vec<u32> = values.as_flattened().iter().map(|w| w.wrapping_add(4)).collect();
    let d = Device::new(Config { sm: 90, ..Config::checked() });
    let buffers = [d.buffer(&values), d.empty::<[u32; 4]>(LINK)];
    let [even, odd] = [buffers[0].ptr, buffers[1].ptr];
    probe::empty(&d.stream).expect("a launch");
    probe::link(&d.stream, even, odd).expect("a launch");
    probe::link(&d.stream, odd, even).expect("a launch");
    // On a real GPU below SM 9.0 the driver would refuse these.
    let last = if d.gpu.properties().sm >= 90 { probe::dependent_link } else { probe::link };
    last(&d.stream, even, odd).expect("a launch");
    last(&d.stream, odd, even).expect("a launch");
    assert_eq!(d.read(&buffers[0]).as_flattened(), expected);
}
