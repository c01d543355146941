//! Correct kernels give right results everywhere, and no check complains.

use crate::device::{Buffer, Device, PTX_75, PTX_80, Vector};
use qrun_emulator::{Config, Machine, Order};

/// Runs `test` on every kind of machine: both architectures, fast and checked, three orders.
fn everywhere(test: impl Fn(&Device)) {
    for (sm, ptx) in [(75, PTX_75), (80, PTX_80), (90, PTX_75)] {
        for checked in [false, true] {
            for order in [Order::Forward, Order::Reverse, Order::Random(1), Order::Random(2)] {
                let machine = Machine::new(Config { sm, checked, order, ..Config::source() });
                let _entered = machine.enter();
                let device = Device::open(ptx).expect("the emulator has a device");
                test(&device);
                assert_eq!(machine.report(), None, "sm {sm} checked {checked} {order:?}");
            }
        }
    }
}

#[test]
fn block_sum() {
    everywhere(|device| {
        let (n, values) = (1000, (0..1000).map(|i| i as f32).collect::<Vec<_>>());
        let (input, output) = (Buffer::new(&values), Buffer::new(&[0f32; 8]));
        device.launch("control_block_sum", 8, 128, 0, Vector(input.address, output.address, n)).expect("launch");
        let expected: Vec<f32> = values.chunks(128).map(|c| c.iter().sum()).collect();
        assert_eq!(output.read(), expected);
    });
}

#[test]
fn reverse_in_place() {
    everywhere(|device| {
        let values: Vec<f32> = (0..512).map(|i| i as f32).collect();
        let data = Buffer::new(&values);
        device.launch("control_reverse", 4, 128, 512, Vector(data.address, data.address, 512)).expect("launch");
        let expected: Vec<f32> = values.chunks(128).flat_map(|c| c.iter().rev().copied().collect::<Vec<_>>()).collect();
        assert_eq!(data.read(), expected);
    });
}

#[test]
fn last_block_combines() {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Params(u64, u64, u64, u64, u64, i32);
    everywhere(|device| {
        let values = vec![1f32; 1000];
        let (input, partial, output) = (Buffer::new(&values), Buffer::new(&[0f32; 16]), Buffer::new(&[0f32]));
        let (ticket, best) = (Buffer::new(&[0u32]), Buffer::new(&[0u64]));
        let params = Params(input.address, partial.address, output.address, ticket.address, best.address, 1000);
        for _ in 0..2 {
            device.launch("control_last_block", 16, 64, 0, params).expect("launch");
            assert_eq!((output.read(), best.read(), ticket.read()), (vec![1000f32], vec![999], vec![0]));
        }
    });
}

#[test]
fn gemm_on_tensor_cores() {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Params(u64, u64, u64, i32);
    let half = |v: i32| [0u16, 0x3c00, 0x4000, 0x4200, 0x4400][v as usize];
    everywhere(|device| {
        let k = 64;
        let (at, bt) = (|r: usize, i: usize| ((r * 3 + i) % 5) as i32, |c: usize, i: usize| ((c + i * 2) % 5) as i32);
        let a: Vec<u16> = (0..16 * k).map(|i| half(at(i / k, i % k))).collect();
        let b: Vec<u16> = (0..8 * k).map(|i| half(bt(i / k, i % k))).collect();
        let (a, b, c) = (Buffer::new(&a), Buffer::new(&b), Buffer::new(&[0f32; 128]));
        device.launch("control_gemm", 1, 32, 0, Params(a.address, b.address, c.address, k as i32)).expect("launch");
        let expected: Vec<f32> =
            (0..128).map(|i| (0..k).map(|j| at(i / 8, j) * bt(i % 8, j)).sum::<i32>() as f32).collect();
        assert_eq!(c.read(), expected);
    });
}

#[test]
fn bytes_side_by_side() {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Params(u64, u64, u64, i32);
    everywhere(|device| {
        let values: Vec<i8> = (0..64).map(|i| i - 32).collect();
        let (input, output, dot) = (Buffer::new(&values), Buffer::new(&[0i8; 64]), Buffer::new(&[0i32]));
        device
            .launch("control_bytes", 1, 64, 0, Params(input.address, output.address, dot.address, 64))
            .expect("launch");
        let expected: Vec<i8> = (0..64).map(|i| values[i ^ 1]).collect();
        assert_eq!(output.read(), expected);
        assert_eq!(dot.read(), [values.iter().map(|&v| i32::from(v) * i32::from(v)).sum::<i32>()]);
    });
}
