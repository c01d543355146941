//! Streams, events, capture and graphs.

use crate::device::{Buffer, Device, PTX_80, Vector, launch};
use cudarc::driver::sys::CUresult;
use cudarc::driver::{result, sys};
use qrun_emulator::{Config, Machine, Order, Streams};

fn stream() -> sys::CUstream {
    result::stream::create(result::stream::StreamKind::NonBlocking).expect("stream")
}

type Wait = fn(sys::CUstream) -> CUresult;

fn event() -> sys::CUevent {
    result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).expect("event")
}

/// Increments `data` on a stream.
fn increment(device: &Device, data: &Buffer<f32>, stream: sys::CUstream) {
    let kernel = device.kernel("control_increment").expect("kernel");
    launch(kernel, [1, 128, 0], stream, &Vector(data.address, data.address, 128)).expect("launch");
}

#[test]
fn work_waits_for_its_stream() {
    let machine = Machine::new(Config { streams: Streams::Delayed, ..Config::source() });
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    let data = Buffer::new(&[0f32; 128]);
    let stream = stream();
    increment(&device, &data, stream);
    assert!(machine.counters().launches.is_empty(), "nothing has happened yet");
    // SAFETY: the stream is alive.
    unsafe { result::stream::synchronize(stream) }.expect("synchronise");
    assert_eq!(machine.counters().launches["control_increment"], 1);
    assert_eq!(data.read(), [1f32; 128]);
}

/// The second stream copies what the first one makes: with an event always right, without one wrong in some order.
#[test]
fn a_missing_event_shows() {
    let outcome = |order: Order, with_event: bool| {
        let machine = Machine::new(Config { streams: Streams::Delayed, order, ..Config::source() });
        let _entered = machine.enter();
        let device = Device::open(PTX_80).expect("open");
        let (data, copy) = (Buffer::new(&[0f32; 128]), Buffer::new(&[9f32; 128]));
        let (first, second, made) = (stream(), stream(), event());
        increment(&device, &data, first);
        // SAFETY: all handles are alive, the buffers large enough.
        unsafe {
            result::event::record(made, first).expect("record");
            if with_event {
                let default = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                result::stream::wait_event(second, made, default).expect("wait");
            }
            result::memcpy_dtod_async(copy.address, data.address, 512, second).expect("copy");
            result::stream::synchronize(second).expect("synchronise");
        }
        copy.read()[0]
    };
    let orders = [Order::Forward, Order::Reverse, Order::Random(1), Order::Random(2)];
    assert!(orders.iter().all(|&o| outcome(o, true) == 1.0));
    assert!(orders.iter().any(|&o| outcome(o, false) == 0.0));
}

#[test]
fn pinned_memory_is_copied_later_and_pageable_memory_at_once() {
    let machine = Machine::new(Config { streams: Streams::Delayed, ..Config::source() });
    let _entered = machine.enter();
    let _device = Device::open(PTX_80).expect("open");
    let (from_pinned, from_pageable) = (Buffer::new(&[0u32; 4]), Buffer::new(&[0u32; 4]));
    let stream = stream();
    // SAFETY: four words each; the pinned ones change before they are copied, which is what is tested.
    unsafe {
        let pinned = result::malloc_host(16, 0).expect("pinned").cast::<u32>();
        let mut pageable = [1u32; 4];
        std::slice::from_raw_parts_mut(pinned, 4).fill(1);
        result::memcpy_htod_async(from_pinned.address, std::slice::from_raw_parts(pinned, 4), stream).expect("copy");
        result::memcpy_htod_async(from_pageable.address, &pageable, stream).expect("copy");
        std::slice::from_raw_parts_mut(pinned, 4).fill(2);
        pageable.fill(2);
        result::stream::synchronize(stream).expect("synchronise");
        result::free_host(pinned.cast()).expect("free");
        assert_eq!(pageable, [2; 4]);
    }
    assert_eq!((from_pinned.read(), from_pageable.read()), (vec![2; 4], vec![1; 4]));
}

#[test]
fn a_graph_is_replayed() {
    for streams in [Streams::Immediate, Streams::Delayed] {
        let machine = Machine::new(Config { streams, ..Config::source() });
        let _entered = machine.enter();
        let device = Device::open(PTX_80).expect("open");
        let data = Buffer::new(&[0f32; 128]);
        let stream = stream();
        // SAFETY: all handles are alive.
        unsafe {
            let relaxed = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            result::stream::begin_capture(stream, relaxed).expect("begin");
            increment(&device, &data, stream);
            increment(&device, &data, stream);
            let graph = result::stream::end_capture(stream).expect("end");
            assert!(machine.counters().launches.is_empty(), "captured, not run");
            let mut exec = std::ptr::null_mut();
            assert_eq!(sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0), CUresult::CUDA_SUCCESS);
            result::graph::destroy(graph).expect("the executable graph is a copy");
            for _ in 0..5 {
                result::graph::launch(exec, stream).expect("launch");
            }
            result::stream::synchronize(stream).expect("synchronise");
            result::graph::exec_destroy(exec).expect("destroy");
        }
        assert_eq!(data.read(), [10f32; 128]);
        assert_eq!(machine.counters().launches["control_increment"], 10);
        assert_eq!(machine.counters().driver_calls["cuGraphLaunch"], 5);
    }
}

#[test]
fn a_capture_takes_other_streams_along_and_forbids_waiting() {
    let machine = Machine::new(Config::source());
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("open");
    let data = Buffer::new(&[0f32; 128]);
    let (first, second, fork, join) = (stream(), stream(), event(), event());
    let global = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    let default = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: all handles are alive.
    unsafe {
        result::stream::begin_capture(first, global).expect("begin");
        result::event::record(fork, first).expect("fork");
        result::stream::wait_event(second, fork, default).expect("fork");
        increment(&device, &data, second);
        result::event::record(join, second).expect("join");
        result::stream::wait_event(first, join, default).expect("join");
        let graph = result::stream::end_capture(first).expect("end");
        let mut nodes = 0;
        assert_eq!(sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut nodes), CUresult::CUDA_SUCCESS);
        assert_eq!(nodes, 1);
        result::graph::destroy(graph).expect("destroy");

        let waits: [(&str, Wait); 3] = [
            ("synchronise", |s| sys::cuStreamSynchronize(s)),
            ("synchronise all", |_| sys::cuCtxSynchronize()),
            ("allocate", |_| result::malloc_sync(64).err().map_or(CUresult::CUDA_SUCCESS, |e| e.0)),
        ];
        for (name, wait) in waits {
            result::stream::begin_capture(first, global).expect("begin");
            assert_eq!(wait(first), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "{name}");
            let ended = result::stream::end_capture(first).err().map(|e| e.0);
            assert_eq!(ended, Some(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), "{name}");
        }
    }
    increment(&device, &data, first);
    assert_eq!(data.read(), [1f32; 128]);
}
