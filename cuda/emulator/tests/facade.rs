//! The driver API: facts, memory, modules, launches, failures on demand.

use crate::device::{Buffer, Device, PTX_75, PTX_80, Result, Vector};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::CUresult;
use cudarc::driver::{result, sys};
use qrun_emulator::{Config, Failure, Machine, Order, Traffic};

fn code<T>(result: Result<T>) -> CUresult {
    result.err().map_or(CUresult::CUDA_SUCCESS, |e| e.0)
}

fn attribute(attribute: Attribute) -> i32 {
    // SAFETY: device 0 exists.
    unsafe { result::device::get_attribute(0, attribute) }.expect("known")
}

/// A cubin of no kernel, as far as its header goes.
fn cubin(sm: u32) -> Vec<u8> {
    let mut image = vec![0u8; 64];
    image[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x33\x07");
    // SM 10.0 and later are of another format, with the number one byte further up.
    let flags = if sm < 100 { sm | 5 << 8 | sm << 16 } else { sm << 8 | 2 };
    if sm >= 100 {
        image[8] = 8;
    }
    image[48..52].copy_from_slice(&flags.to_le_bytes());
    image
}

#[test]
fn devices_are_what_was_asked_for() {
    for (sm, name, shared) in [(75, "T4", 65536), (86, "3060", 101376), (90, "H100", 232448), (120, "5080", 101376)] {
        let machine = Machine::new(Config { sm, memory: 1 << 30, devices: 2, driver: 12040, ..Config::source() });
        let _entered = machine.enter();
        result::init().expect("init");
        assert_eq!(result::device::get_count().expect("count"), 2);
        assert!(result::device::get_name(1).expect("name").contains(name));
        let (major, minor) = (
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        );
        assert_eq!((attribute(major) * 10 + attribute(minor)) as u32, sm);
        assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), shared);
        let mut version = 0;
        // SAFETY: writes one int.
        assert_eq!(unsafe { sys::cuDriverGetVersion(&mut version) }, CUresult::CUDA_SUCCESS);
        assert_eq!(version, 12040);
        assert_eq!(code(result::device::get(2)), CUresult::CUDA_ERROR_INVALID_DEVICE);
    }
    let none = Machine::new(Config { devices: 0, ..Config::source() });
    let _entered = none.enter();
    assert_eq!(code(result::init()), CUresult::CUDA_ERROR_NO_DEVICE);
}

#[test]
fn memory_is_bounded_and_checked() {
    let machine = Machine::new(Config { memory: 1 << 20, ..Config::source() });
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    // SAFETY: addresses are the emulator's; wrong ones are what is tested.
    assert_eq!(code(unsafe { result::malloc_sync(2 << 20) }), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let buffer = Buffer::new(&[1f32; 1000]);
    assert_eq!(machine.counters().used, 4096);
    assert_eq!(machine.counters().allocations, 1);
    // SAFETY: as above.
    let past = code(unsafe { result::memcpy_htod_sync(buffer.address + 4, &[0f32; 1000]) });
    assert_eq!(past, CUresult::CUDA_ERROR_INVALID_VALUE);
    let report = machine.report().expect("a reason");
    assert!(report.contains("cuMemcpyHtoD of 4000 bytes to byte 4 of 4000 of allocation 0 does not fit"), "{report}");
    let freed = buffer.address;
    drop(buffer);
    // SAFETY: as above.
    assert_eq!(code(unsafe { result::memcpy_htod_sync(freed, &[0f32; 1]) }), CUresult::CUDA_ERROR_INVALID_VALUE);
    // SAFETY: as above.
    let fresh = unsafe { result::malloc_sync(64) }.expect("memory");
    let mut values = [0f32; 16];
    // SAFETY: as above.
    unsafe { result::memcpy_dtoh_sync(&mut values, fresh) }.expect("copy");
    assert!(values.iter().all(|v| v.is_nan()), "fresh memory is NaN");
    // SAFETY: as above.
    unsafe { result::free_sync(fresh) }.expect("free");
    // SAFETY: as above: freed twice.
    assert_eq!(code(unsafe { result::free_sync(fresh) }), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(machine.counters().used, 0);
    drop(device);
}

#[test]
fn modules_run_where_the_driver_would_run_them() {
    for (sm, image, expected) in [
        (80, cubin(80), CUresult::CUDA_SUCCESS),
        (86, cubin(80), CUresult::CUDA_SUCCESS),
        (80, cubin(86), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU),
        (90, cubin(80), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU),
        (120, cubin(120), CUresult::CUDA_SUCCESS),
        (100, cubin(120), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU),
        (120, PTX_75.to_vec(), CUresult::CUDA_SUCCESS),
        (75, PTX_80.to_vec(), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU),
        (80, b".version 8.7\n.target sm_80\n\0".to_vec(), CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
        (80, b"not an image\0".to_vec(), CUresult::CUDA_ERROR_INVALID_IMAGE),
    ] {
        let machine = Machine::new(Config { sm, driver: 12040, ..Config::source() });
        let _entered = machine.enter();
        assert_eq!(code(Device::open(&image)), expected, "sm {sm}");
    }
    let machine = Machine::new(Config::source());
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    assert_eq!(code(device.kernel("no_such_kernel")), CUresult::CUDA_ERROR_NOT_FOUND);
}

#[test]
fn launches_are_refused_with_the_reason() {
    let machine = Machine::new(Config::source());
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    let data = Buffer::new(&[1f32; 512]);
    let params = Vector(data.address, data.address, 512);
    let refused = |result: Result<()>, words: &str| {
        assert_eq!(code(result), CUresult::CUDA_ERROR_INVALID_VALUE, "{words}");
        let report = machine.report().expect("a reason");
        assert!(report.contains(words), "{report}");
    };
    refused(
        device.launch("control_reverse", 4, 128, 512, (1u64, 2u64)),
        "given 16 bytes of parameters, the kernel's struct has 24",
    );
    refused(device.launch("control_reverse", 4, 256, 512, params), "its launch bound is 128 threads");
    refused(device.launch("control_reverse", 0, 128, 512, params), "no such grid");
    refused(device.launch("control_reverse", 4, 128, 64 << 10, params), "the function's attribute allows 49152 bytes");
    let kernel = device.kernel("control_reverse").expect("kernel");
    let dynamic = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the kernel is loaded.
    let too_much = unsafe { result::function::set_function_attribute(kernel, dynamic, 200 << 10) };
    assert_eq!(code(too_much), CUresult::CUDA_ERROR_INVALID_VALUE);
    // SAFETY: as above.
    unsafe { result::function::set_function_attribute(kernel, dynamic, 64 << 10) }.expect("within the limit");
    device.launch("control_reverse", 4, 128, 64 << 10, params).expect("now allowed");
}

#[test]
fn a_fault_names_its_place_and_sticks() {
    let machine = Machine::new(Config::source());
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    let data = Buffer::new(&[1f32; 64]);
    let error = device.launch("control_increment", 40, 128, 0, Vector(data.address, data.address, 5000)).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let text = error.error_string().expect("a string").to_string_lossy().into_owned();
    for words in [
        "kernel control_increment: block 0 thread 64",
        "memory 0 bytes behind the end of allocation 0 (256 bytes)",
        "controls.cu:",
    ] {
        assert!(text.contains(words), "{text}");
    }
    // As on a GPU, nothing works in this process's context from now on.
    // SAFETY: allocates nothing.
    assert_eq!(code(unsafe { result::malloc_sync(64) }), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn any_call_can_fail() {
    let machine = Machine::new(Config::source());
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    machine.fail(Failure { call: Some("cuMemAlloc"), nth: 2, code: 2 });
    // SAFETY: freed with the machine.
    let outcomes: Vec<_> = (0..3).map(|_| code(unsafe { result::malloc_sync(64) })).collect();
    assert_eq!(outcomes, [CUresult::CUDA_SUCCESS, CUresult::CUDA_ERROR_OUT_OF_MEMORY, CUresult::CUDA_SUCCESS]);
    drop(device);
    // Whatever the nth call is, it fails, and the calls after it say so or work.
    let mut calls = 0;
    for nth in 1.. {
        let machine = Machine::new(Config::source());
        let _entered = machine.enter();
        machine.fail(Failure { call: None, nth, code: 999 });
        let all = || -> Result<()> {
            let device = Device::open(PTX_80)?;
            // SAFETY: freed below, or with the machine.
            let address = unsafe { result::malloc_sync(64) }?;
            device.launch("control_increment", 1, 128, 0, Vector(address, address, 16))?;
            result::ctx::synchronize()?;
            // SAFETY: allocated above.
            unsafe { result::free_sync(address) }
        };
        match all() {
            Ok(()) => break,
            Err(e) => assert_eq!(e.0, CUresult::CUDA_ERROR_UNKNOWN),
        }
        calls = nth;
    }
    assert!(calls >= 8, "{calls} calls were made to fail");
}

#[test]
fn counting_only_runs_nothing() {
    let machine = Machine::new(Config { execute: false, memory: 64 << 30, ..Config::source() });
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    // SAFETY: freed with the machine.
    let address = unsafe { result::malloc_sync(40 << 30) }.expect("costs nothing");
    for _ in 0..3 {
        device.launch("control_increment", 1 << 20, 128, 0, Vector(address, address, 1 << 27)).expect("launch");
    }
    let counters = machine.counters();
    assert_eq!(counters.launches["control_increment"], 3);
    // Beside the allocation there is the code of one kernel.
    assert_eq!((counters.used, counters.syncs), ((40 << 30) + (64 << 10), 0));
    machine.reset_counters();
    assert!(machine.counters().launches.is_empty() && machine.counters().used > 40 << 30);
}

#[test]
fn traffic_is_counted_by_fence() {
    let machine = Machine::new(Config { checked: true, ..Config::source() });
    let _entered = machine.enter();
    let device = Device::open(PTX_75).expect("open");
    let arena = Buffer::new(&vec![0f32; 1024]);
    let (input, output) = (arena.address, arena.address + 2048);
    machine.fence(input, 400, "input");
    machine.fence(output, 400, "output");
    device.launch("control_increment", 1, 128, 0, Vector(input, output, 100)).expect("launch");
    let traffic = machine.counters().traffic;
    assert_eq!(
        (traffic["input"], traffic["output"]),
        (Traffic { read: 400, written: 0 }, Traffic { read: 0, written: 400 })
    );
    // One element more is inside the allocation, but in nobody's part of it.
    let error = device.launch("control_increment", 1, 128, 0, Vector(input, output, 101)).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(
        machine.report().is_some_and(|r| r.contains("behind the end of input (400 bytes)")),
        "{:?}",
        machine.report()
    );
}

#[test]
fn machines_run_side_by_side() {
    std::thread::scope(|scope| {
        for sm in [75, 80, 90, 120] {
            scope.spawn(move || {
                let machine =
                    Machine::new(Config { sm, order: Order::Random(sm.into()), checked: true, ..Config::source() });
                let _entered = machine.enter();
                let device = Device::open(PTX_75).expect("open");
                let data = Buffer::new(&[0f32; 1000]);
                for _ in 0..20 {
                    device
                        .launch("control_increment", 8, 128, 0, Vector(data.address, data.address, 1000))
                        .expect("launch");
                }
                assert_eq!(data.read(), [20f32; 1000]);
                assert_eq!(machine.counters().launches["control_increment"], 20);
            });
        }
    });
}

#[test]
fn handles_remember_their_machine() {
    let machine = Machine::new(Config::source());
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    let data = Buffer::new(&[0f32; 128]);
    let (kernel, context) = (device.kernel("control_increment").expect("kernel") as usize, device.context as usize);
    let address = data.address;
    // A thread that never entered the machine.
    std::thread::spawn(move || {
        // SAFETY: the context outlives the thread.
        unsafe { result::ctx::set_current(context as sys::CUcontext) }.expect("context");
        let params = Vector(address, address, 128);
        crate::device::launch(kernel as sys::CUfunction, [1, 128, 0], std::ptr::null_mut(), &params).expect("launch");
    })
    .join()
    .expect("no panic");
    assert_eq!(data.read(), [1f32; 128]);
    assert_eq!(machine.counters().launches["control_increment"], 1);
}

#[test]
#[ignore = "the child process of the next test"]
fn child() {
    let outcome = (|| -> Result<String> {
        result::init()?;
        let name = result::device::get_name(0)?;
        let device = Device::open(PTX_75)?;
        // SAFETY: freed with the process.
        let address = unsafe { result::malloc_sync(512) }?;
        device.launch("control_increment", 1, 128, 0, Vector(address, address, 128))?;
        Ok(name)
    })();
    std::io::Write::write_all(&mut std::io::stdout(), format!("outcome {outcome:?}\n").as_bytes()).expect("stdout");
}

#[test]
fn a_child_process_uses_the_library() {
    let run = |settings: &str| {
        let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "facade::child", "--ignored", "--nocapture"]);
        command.env("LD_LIBRARY_PATH", qrun_emulator::library()).env("QRUN_EMULATOR", settings);
        String::from_utf8_lossy(&command.output().expect("runs").stdout).into_owned()
    };
    assert!(run("sm=75,memory=1g").contains("outcome Ok(\"Emulated T4\")"));
    assert!(run("sm=90,checked=1,order=random:5").contains("outcome Ok(\"Emulated H100\")"));
    assert!(run("sm=75,fail=cuLaunchKernel:1:719").contains("CUDA_ERROR_LAUNCH_FAILED"));
    assert!(run("sm=75,memory=256").contains("CUDA_ERROR_OUT_OF_MEMORY"));
    assert!(run("devices=0").contains("CUDA_ERROR_NO_DEVICE"));
    // What executes PTX is not in the library.
    assert!(run("code=ptx").contains("CUDA_ERROR_NOT_SUPPORTED"));
}
