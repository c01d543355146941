//! Device memory with exact bounds, and kernels around a few lines of PTX.

use std::{
    cell::{RefCell, UnsafeCell},
    ops::Range,
};

use qrun_emulator::{
    Order,
    isa::{self, Approximation, Counts, Fault, GlobalMemory, Launch, Module},
};

/// Bytes of static and dynamic shared memory that a block may have.
const SHARED_LIMIT: u32 = 64 << 10;

/// The orders of threads and blocks in which every right kernel has the same result.
pub const ORDERS: [Order; 3] = [Order::Forward, Order::Reverse, Order::Random(7)];

/// Numbers of which any bits are a value.
pub trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for i8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for f32 {}
impl Plain for u64 {}
impl Plain for [i32; 2] {}

/// 256 bytes, as the driver aligns allocations.
#[repr(C, align(256))]
struct Line(UnsafeCell<[u8; LINE]>);
const LINE: usize = 256;

/// Allocations, and what the machine told of its stores to them.
#[derive(Default)]
pub struct Memory {
    parts: Vec<(Box<[Line]>, usize)>,
    pub published: RefCell<Vec<Option<u64>>>,
}

impl Memory {
    /// The address of a copy of the values; it ends with the last of them.
    pub fn put<T: Plain>(&mut self, values: &[T]) -> u64 {
        let bytes = size_of_val(values);
        let lines: Box<[Line]> = (0..bytes.div_ceil(LINE)).map(|_| Line(UnsafeCell::new([0xA5; LINE]))).collect();
        let address = lines.as_ptr();
        // SAFETY: the lines have room for the values, which are plain numbers.
        unsafe { values.as_ptr().cast::<u8>().copy_to(address.cast::<u8>().cast_mut(), bytes) };
        self.parts.push((lines, bytes));
        address.expose_provenance() as u64
    }

    /// What lies from the address to the end of its allocation.
    pub fn get<T: Plain>(&self, address: u64) -> Vec<T> {
        let end = self.region(address).expect("an address that `put` gave").end;
        let from: *const T = std::ptr::with_exposed_provenance(address as usize);
        // SAFETY: inside of one allocation; plain numbers.
        (0..(end - address) as usize / size_of::<T>()).map(|i| unsafe { from.add(i).read_unaligned() }).collect()
    }
}

// SAFETY: regions are allocations that live as long as the memory, in cells; only the thread of the test touches them.
unsafe impl GlobalMemory for Memory {
    fn region(&self, address: u64) -> Result<Range<u64>, String> {
        let regions = self.parts.iter().map(|(lines, bytes)| {
            let start = lines.as_ptr().expose_provenance() as u64;
            start..start + *bytes as u64
        });
        regions.into_iter().find(|r| r.contains(&address)).ok_or_else(|| "in no allocation of the test".to_string())
    }

    fn published(&self, address: Option<u64>) {
        self.published.borrow_mut().push(address);
    }
}

/// One launch.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub text: &'a str,
    pub kernel: &'a str,
    pub grid: [u32; 3],
    pub threads: u32,
    pub dynamic: u32,
    pub params: &'a [u8],
    pub order: Order,
    pub ends: u64,
    pub approximation: Approximation,
}

impl<'a> Job<'a> {
    /// One block of the kernel `k` of a text that [`module`] wrote.
    pub fn new(text: &'a str, threads: u32, params: &'a [u8]) -> Self {
        let (order, approximation) = (Order::Forward, Approximation::Exact);
        Self { text, kernel: "k", grid: [1; 3], threads, dynamic: 0, params, order, ends: 0, approximation }
    }

    /// Parses the text and runs the launch; all that goes wrong is told as a fault of the launch.
    pub fn run(&self, memory: &Memory) -> Result<Counts, Fault> {
        let module = Module::parse(self.text).map_err(|e| Fault { code: 0, report: e.to_string() })?;
        self.of(&module, memory)
    }

    /// The same with a module that is parsed already.
    pub fn of(&self, module: &Module, memory: &Memory) -> Result<Counts, Fault> {
        let missing = || Fault { code: 0, report: format!("no kernel {}", self.kernel) };
        let launch = Launch {
            kernel: module.kernel(self.kernel).ok_or_else(missing)?,
            params: self.params,
            grid: self.grid,
            block: [self.threads, 1, 1],
            dynamic_shared: self.dynamic,
            shared_limit: SHARED_LIMIT,
            order: self.order,
            seed: 1,
            ends: self.ends,
            dependent: false,
            approximation: self.approximation,
            memory,
        };
        let mut counts = Counts::default();
        isa::run(&launch, &mut counts)?;
        Ok(counts)
    }

    /// The report of a launch that has to fail.
    #[track_caller]
    pub fn fault(&self, memory: &Memory) -> Fault {
        match self.run(memory) {
            Ok(_) => panic!("no fault was found in\n{}", self.text),
            Err(fault) => fault,
        }
    }
}

/// PTX of one kernel, `k`, for blocks of `threads`, whose parameters are `words` 8-byte words. It has registers of
/// every kind, %r0 holds its thread, and %rd0, %rd1 … hold its parameters. The text gets a line per instruction.
pub fn module(threads: u32, words: usize, shared: &str, body: &str) -> String {
    let ends = ["; ", ": ", "{ ", "} "];
    let body = ends.iter().fold(body.to_owned(), |body, end| body.replace(end, &end.replace(' ', "\n")));
    let loads: String = (0..words).map(|i| format!("ld.param.u64 %rd{i}, [k_param_0+{}];\n", 8 * i)).collect();
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic_shared[];\n\
         .visible .entry k(\n.param .align 8 .b8 k_param_0[{}]\n)\n.maxntid {threads}, 1, 1\n{{\n\
         .reg .pred %p<40>;\n.reg .b16 %rs<40>;\n.reg .b32 %r<80>;\n.reg .f32 %f<40>;\n.reg .f64 %fd<40>;\n\
         .reg .b64 %rd<80>;\n{shared}\nmov.u32 %r0, %tid.x;\n{loads}{body}\nret;\n}}\n",
        8 * words.max(1)
    )
}

/// 8-byte words as the parameters of a launch.
pub fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Runs a body over one block with one input array and room for as many words of output, in all orders; the output.
#[track_caller]
pub fn outcome<T: Plain>(threads: u32, shared: &str, body: &str, input: &[T], output: usize) -> Vec<u32> {
    let text = module(threads, 2, shared, body);
    let mut results = ORDERS.map(|order| {
        let mut memory = Memory::default();
        let (from, to) = (memory.put(input), memory.put(&vec![UNTOUCHED; output]));
        let params = words(&[from, to]);
        let done = Job { order, ..Job::new(&text, threads, &params) }.run(&memory);
        done.unwrap_or_else(|fault| panic!("{order:?}: {}\n{text}", fault.report));
        memory.get::<u32>(to)
    });
    assert!(results.iter().all(|r| *r == results[0]), "the result depends on the order\n{text}");
    std::mem::take(&mut results[0])
}

/// What a word holds where nothing was written.
pub const UNTOUCHED: u32 = 0xDDDD_DDDD;

/// Random numbers, the same on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// From -1 to 1, with few digits, so that sums of some products are exact.
    pub fn short(&mut self) -> f32 {
        self.below(33) as f32 / 16.0 - 1.0
    }
}
