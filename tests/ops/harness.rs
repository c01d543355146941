//! Where op tests run, and how results are compared.

use std::sync::Arc;

use qrun_cuda::{Arena, Gpu, Pinned, Ptr, Stream};
use qrun_emulator::{Config, Machine, Order};

use crate::card::{self, Place};

/// What results hold where nothing is to be written.
pub const UNTOUCHED: f32 = -777.0;

/// Schedules of threads and blocks; results must not depend on them.
const ORDERS: [Order; 3] = [Order::Forward, Order::Reverse, Order::Random(42)];

/// A GPU for one test case.
pub struct Device {
    pub gpu: Arc<Gpu>,
    pub stream: Stream,
    // Dropped last: what is above still calls the driver.
    place: Place,
}

/// Device memory of its own: on a checked machine an access past its end is an error.
pub struct Buffer<T> {
    pub ptr: Ptr<T>,
    len: usize,
    _arena: Arena,
}

/// A GPU that the cases of a test share: opening one unpacks and loads all kernels.
struct Opened {
    config: Config,
    machine: Option<Machine>,
    /// Until this is dropped.
    gpu: Option<Arc<Gpu>>,
}

impl Opened {
    fn new(config: Config) -> Self {
        let place = Place::new(config.clone());
        Self { config, machine: place.machine.clone(), gpu: Some(card::gpu()) }
    }

    fn device(&self) -> Device {
        Device::on(Place::on(self.machine.clone()), self.gpu.clone().expect("open"))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _place = Place::on(self.machine.clone());
        self.gpu = None;
    }
}

thread_local! {
    /// For the cases of a test: each build, checked, in all orders; the card twice.
    static BUILDS: Vec<Vec<Opened>> = {
        let checked = |sm| ORDERS.map(|order| Config { sm, order, ..Config::checked() }).to_vec();
        let builds = match card::is_real() {
            true => vec![vec![Config::default(); 2]],
            false => card::builds().into_iter().map(checked).collect(),
        };
        builds.into_iter().map(|build| build.into_iter().map(Opened::new).collect()).collect()
    };
}

impl Device {
    /// An emulated GPU, or the card.
    pub fn new(config: Config) -> Self {
        let place = Place::new(config);
        Self::on(place, card::gpu())
    }

    fn on(place: Place, gpu: Arc<Gpu>) -> Self {
        Self { stream: Stream::new(&gpu).expect("a stream"), gpu, place }
    }

    /// The emulated machine; none where this is the card.
    pub fn machine(&self) -> Option<&Machine> {
        self.place.machine.as_ref()
    }

    /// A copy of `values` on the device.
    pub fn buffer<T: Copy + Default>(&self, values: &[T]) -> Buffer<T> {
        let buffer = self.empty(values.len());
        let mut pinned = Pinned::new(&self.gpu, values.len()).expect("pinned memory");
        pinned.as_mut_slice().copy_from_slice(values);
        // SAFETY: the buffer has as many values and lives until the copy was waited for.
        unsafe { self.stream.copy_in(buffer.ptr, &pinned, values.len()) }.expect("a copy");
        self.stream.synchronize().expect("a copy");
        buffer
    }

    /// Room for `len` values; NaN (all bits set) until something is written.
    pub fn empty<T>(&self, len: usize) -> Buffer<T> {
        let (arena, ptr) = Arena::new(&self.gpu, |layout| layout.take("test", len)).expect("device memory");
        self.fence(ptr, len, "a test's buffer");
        Buffer { ptr, len, _arena: arena }
    }

    /// An arena is larger than its parts: the checker is told where one of them ends.
    pub fn fence<T>(&self, part: Ptr<T>, len: usize, name: &str) {
        if let Some(machine) = self.machine().filter(|_| len > 0) {
            machine.fence(part.address(), (len * size_of::<T>()) as u64, name);
        }
    }

    /// The values on the device, after all that was launched.
    pub fn read<T: Copy + Default>(&self, buffer: &Buffer<T>) -> Vec<T> {
        let mut pinned = Pinned::new(&self.gpu, buffer.len).expect("pinned memory");
        // SAFETY: the buffer has as many values, numbers of any bits, and lives until the copy was waited for.
        unsafe { self.stream.copy_out(&mut pinned, buffer.ptr, buffer.len) }.unwrap_or_else(|e| panic!("{e}"));
        self.stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
        pinned.to_vec()
    }
}

/// Runs a case in every build and order, checked; asserts that the order changes no bit; and has `judge` look at the
/// result of each build. On a card: once, and a second time for the same bits.
pub fn everywhere(run: impl Fn(&Device) -> Vec<f32>, judge: impl Fn(&[f32])) {
    BUILDS.with(|builds| {
        for build in builds {
            let mut results: Vec<Vec<f32>> = build.iter().map(|opened| run(&opened.device())).collect();
            let bits = |r: &[f32]| r.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            for (Opened { config, .. }, other) in build.iter().zip(&results).skip(1) {
                let same = bits(&results[0]) == bits(other);
                assert!(
                    same,
                    "sm_{}, {:?}: the result depends on the order of threads or blocks",
                    config.sm, config.order
                );
            }
            judge(&results.swap_remove(0));
        }
    });
}

/// `|found − expected|` in the L2 norm, of what is not expected to be [`UNTOUCHED`]; infinite where anything else is or that was
/// written, where anything is not finite, or where lengths differ.
fn l2_error(found: &[f32], expected: &[f64]) -> f64 {
    let untouched = |x: f64| x == f64::from(UNTOUCHED);
    let pairs = || found.iter().map(|&f| f64::from(f)).zip(expected.iter().copied());
    if found.len() != expected.len() || pairs().any(|(f, e)| !f.is_finite() || untouched(f) != untouched(e)) {
        return f64::INFINITY;
    }
    pairs().filter(|&(_, e)| !untouched(e)).map(|(f, e)| (f - e).powi(2)).sum::<f64>().sqrt()
}

/// The same error relative to `|expected|`, of the same elements.
pub fn relative_l2(found: &[f32], expected: &[f64]) -> f64 {
    let written = expected.iter().filter(|&&e| e != f64::from(UNTOUCHED));
    relative_to(written.map(|e| e * e).sum::<f64>().sqrt(), found, expected)
}

fn relative_to(size: f64, found: &[f32], expected: &[f64]) -> f64 {
    let error = l2_error(found, expected);
    if error == 0.0 { 0.0 } else { error / size }
}

/// Asserts a bound on [`relative_l2`]; what is not a number fails.
pub fn assert_close(found: &[f32], expected: &[f64], bound: f64, what: &str) {
    let error = relative_l2(found, expected);
    assert!(error <= bound, "{what}: relative L2 error {error:.2e}, at most {bound:.0e} allowed");
}

/// The same relative to a size that is not theirs: that of terms which may cancel in a few results.
pub fn assert_close_for(size: f64, found: &[f32], expected: &[f64], bound: f64, what: &str) {
    let error = relative_to(size, found, expected);
    assert!(error <= bound, "{what}: L2 error of {error:.2e} of its terms, at most {bound:.0e} allowed");
}

/// Random numbers for test data: the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1)
    }
    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Standard normal.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * self.uniform()).cos()) as f32
    }
    pub fn normals(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.normal()).collect()
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}
