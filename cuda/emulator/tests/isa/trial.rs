//! A launch of a shipped kernel: its text, its parameters by name, what it gave against what it has to give.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use qrun_emulator::{
    LAYOUT, Order,
    isa::{Counts, Module},
};

use crate::isa::harness::{Job, Memory, Plain, Random};

/// A text in which a kernel runs, what that counted, and its processor time.
pub struct Trial<'a> {
    module: &'a Module,
    kernel: &'a str,
    order: Order,
    pub counts: RefCell<Counts>,
    pub time: Cell<Duration>,
}

impl<'a> Trial<'a> {
    pub fn run(
        &self,
        memory: &Memory,
        params: &[u8],
        grid: [u32; 3],
        threads: u32,
        dynamic: u32,
    ) -> Result<(), String> {
        let job = Job { kernel: self.kernel, grid, dynamic, order: self.order, ..Job::new("", threads, params) };
        let begin = processor_time();
        let counts = job.of(self.module, memory).map_err(|fault| fault.report)?;
        self.time.set(self.time.get() + (processor_time() - begin));
        self.counts.borrow_mut().add(&counts);
        Ok(())
    }
    pub fn new(module: &'a Module, kernel: &'a str, order: Order) -> Self {
        Self { module, kernel, order, counts: RefCell::default(), time: Cell::default() }
    }
    pub fn bf16(&self) -> bool {
        self.module.sm >= 80
    }
}

/// A number that layout.cpp prints.
pub fn number(name: &str) -> usize {
    let line = LAYOUT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("cuda/emulator/kernel/layout.cpp does not print {name}"))
}

/// A struct of parameters by the names of its fields, zero where nothing is said.
pub struct Params {
    of: &'static str,
    pub bytes: Vec<u8>,
}

impl Params {
    pub fn new(of: &'static str) -> Self {
        Self { of, bytes: vec![0; number(of)] }
    }

    /// Of a product of few columns: row tiles and warps of a block, and what is multiplied by instead of dividing by small numbers.
    pub fn cut(self, tiles: i32, warps: u32, k: usize) -> Self {
        let factor = |n: usize| 65_536_usize.div_ceil(n) as i32;
        self.set("tile_shift", tiles.max(1).ilog2() as i32)
            .set("warp_factor", factor(warps as usize))
            .set("row_factor", [128, 256].map(|columns| factor(k.div_ceil(columns))))
    }

    /// A field, or `field.Struct.field` for one of a struct in it.
    pub fn set<T: Plain>(mut self, path: &str, value: T) -> Self {
        let at = match path.split_once('.') {
            Some((field, inner)) => number(&format!("{}.{field}", self.of)) + number(inner),
            None => number(&format!("{}.{path}", self.of)),
        };
        // SAFETY: plain numbers.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(&value).cast::<u8>(), size_of::<T>()) };
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }
}

/// What lies where nothing may be written.
pub const IDLE: f32 = -777.0;

/// Whether the relative error in the L2 norm is small, and nothing was written where nothing may be.
pub fn close(found: &[f32], expected: &[f64], bound: f64) -> Result<(), String> {
    let (mut error, mut size) = (0.0, 0.0);
    for (&found, &expected) in found.iter().zip(expected) {
        if expected != f64::from(IDLE) {
            error += (f64::from(found) - expected).powi(2);
            size += expected * expected;
        } else if found != IDLE {
            return Err("wrong: what nobody may write was written".to_owned());
        }
    }
    let relative = (error / size).sqrt();
    if relative <= bound { Ok(()) } else { Err(format!("wrong: relative L2 error {relative:.1e}")) }
}

/// Whether `q`, `d` and `s` are the image of `y`, block by block; those of idle blocks hold what they held: 99, IDLE and IDLE.
pub fn image_of(y: &[f32], idle: &dyn Fn(usize) -> bool, q: &[i8], d: &[f32], s: &[f32]) -> Result<(), String> {
    for (block, y) in y.chunks(32).enumerate() {
        let scale = y.iter().fold(0f32, |m, y| m.max(y.abs())) / 127.0;
        let mut halves = [0; 2];
        for (e, y) in y.iter().enumerate() {
            let found = q[32 * block + (e & 12) * 2 + (e & 16) / 4 + e % 4];
            halves[e / 16] += i32::from(found);
            let expected = if idle(block) { 99 } else { (y / scale).round_ties_even() as i8 };
            if found != expected {
                return Err(format!("wrong: element {e} of block {block} is {found}, expected {expected}"));
            }
        }
        let expected =
            if idle(block) { [IDLE; 3] } else { [scale, scale * halves[0] as f32, scale * halves[1] as f32] };
        if [d[block], s[2 * block], s[2 * block + 1]] != expected {
            return Err(format!("wrong: scale or sums of block {block}"));
        }
    }
    Ok(())
}

pub fn floats(n: usize, random: &mut Random) -> Vec<f32> {
    (0..n).map(|_| (random.below(2001) as f32 - 1000.0) / 700.0).collect()
}

/// What this thread has had of a processor.
fn processor_time() -> Duration {
    // What a running thread has had is written down at its ticks, and where it lets others run.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default())
}
