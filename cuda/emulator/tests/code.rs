//! Machines that run the image they are given: the driver's side of it. What the instructions do is tested in tests/isa.

use crate::device::{Buffer, Device, PTX_75, Result, Vector};
use cudarc::driver::result;
use cudarc::driver::sys::CUresult;
use qrun_emulator::{Code, Config, Machine, Order, Traffic};

/// out[i] = in[i] + 2: the kernel of this name that g++ compiled adds 1.
const PLUS_TWO: &str = "\
.version 7.0
.target sm_75
.address_size 64
.visible .entry control_increment(
	.param .align 8 .b8 control_increment_param_0[24]
)
.maxntid 128, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<3>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<8>;
	ld.param.u64 	%rd1, [control_increment_param_0];
	ld.param.u64 	%rd2, [control_increment_param_0+8];
	ld.param.u32 	%r1, [control_increment_param_0+16];
	mov.u32 	%r2, %ctaid.x;
	mov.u32 	%r3, %tid.x;
	shl.b32 	%r4, %r2, 7;
	add.s32 	%r5, %r4, %r3;
	setp.ge.s32 	%p1, %r5, %r1;
	@%p1 bra 	$L__BB0_2;
	cvta.to.global.u64 	%rd3, %rd1;
	cvta.to.global.u64 	%rd4, %rd2;
	mul.wide.s32 	%rd5, %r5, 4;
	add.s64 	%rd6, %rd3, %rd5;
	ld.global.f32 	%f1, [%rd6];
	add.f32 	%f2, %f1, 0f40000000;
	add.s64 	%rd7, %rd4, %rd5;
	st.global.f32 	[%rd7], %f2;
$L__BB0_2:
	ret;
}
";

fn image(ptx: &str) -> Vec<u8> {
    [ptx.as_bytes(), b"\0"].concat()
}

fn ptx() -> Config {
    Config { code: Code::Ptx, ..Config::default() }
}

fn code<T>(result: Result<T>) -> CUresult {
    result.err().map_or(CUresult::CUDA_SUCCESS, |e| e.0)
}

/// Opens the image on a machine; the error's text where that is refused.
fn refused(config: Config, image: &[u8]) -> (CUresult, String) {
    let machine = Machine::new(config);
    let _entered = machine.enter();
    let refused = Device::open(image).err().expect("refused");
    (refused.0, refused.error_string().expect("a string").to_string_lossy().into_owned())
}

#[test]
fn the_image_runs_and_not_the_source() {
    for order in [Order::Forward, Order::Reverse, Order::Random(3)] {
        let machine = Machine::new(Config { order, ..ptx() });
        let _entered = machine.enter();
        let device = Device::open(&image(PLUS_TWO)).expect("open");
        let data = Buffer::new(&[1f32; 300]);
        for _ in 0..2 {
            let vector = Vector(data.address, data.address, 300);
            device.launch("control_increment", 3, 128, 0, vector).expect("launch");
        }
        assert_eq!(data.read(), [5f32; 300]);
        assert_eq!((machine.report(), machine.counters().launches["control_increment"]), (None, 2));
        let counts = machine.code_counts().kernel("control_increment");
        assert_eq!((counts.launches, counts.blocks), (2, 6));
        machine.reset_counters();
        assert_eq!(machine.code_counts().warp_instructions(), 0);
    }
    let machine = Machine::new(Config::source());
    assert_eq!(machine.code_counts().kernels.len(), 0);
}

#[test]
fn only_the_ends_of_a_launch_run_where_that_is_asked_for() {
    let machine = Machine::new(Config { blocks: 1, ..ptx() });
    let _entered = machine.enter();
    let device = Device::open(&image(PLUS_TWO)).expect("open");
    let data = Buffer::new(&[0f32; 4 * 128]);
    device.launch("control_increment", 4, 128, 0, Vector(data.address, data.address, 512)).expect("launch");
    let expected: Vec<f32> = [2., 0., 0., 2.].iter().flat_map(|&x: &f32| [x; 128]).collect();
    assert_eq!(data.read(), expected);
    // Counted only.
    let machine = Machine::new(Config { execute: false, ..ptx() });
    let _entered = machine.enter();
    let device = Device::open(&image(PLUS_TWO)).expect("open");
    device.launch("control_increment", 4, 128, 0, Vector(8, 8, 512)).expect("launch");
    assert_eq!(machine.counters().launches["control_increment"], 1);
    assert_eq!(machine.code_counts().warp_instructions(), 0);
}

#[test]
fn what_is_no_ptx_is_refused_with_the_way_out() {
    let mut cubin = b"\x7fELF\x02\x01\x01\x33\x07".to_vec();
    cubin.resize(64, 0);
    cubin[48..52].copy_from_slice(&(80u32 | 80 << 16).to_le_bytes());
    let (status, text) = refused(ptx(), &cubin);
    assert_eq!(status, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert!(text.contains("machine code for sm_80") && text.contains("QRUN_KERNELS=compute_80"), "{text}");
    let unknown = PLUS_TWO.replace("add.f32", "sub.add.f32");
    let (status, text) = refused(ptx(), &image(&unknown));
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_PTX);
    let line = 1 + PLUS_TWO.lines().position(|line| line.contains("add.f32")).expect("a line");
    assert!(text.contains(&format!("line {line}: ")) && text.contains("sub.add.f32"), "{text}");
    // PTX for a newer GPU is the driver's to refuse, as ever.
    let newer = PLUS_TWO.replace("sm_75", "sm_80");
    assert_eq!(refused(Config { sm: 75, ..ptx() }, &image(&newer)).0, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
}

#[test]
fn a_kernel_is_what_its_image_says() {
    let machine = Machine::new(ptx());
    let _entered = machine.enter();
    let device = Device::open(&image(PLUS_TWO)).expect("open");
    // The source has it.
    assert_eq!(code(device.kernel("control_reverse")), CUresult::CUDA_ERROR_NOT_FOUND);
    let data = Buffer::new(&[0f32; 8]);
    let vector = Vector(data.address, data.address, 8);
    let refused = |outcome, words: &str| {
        assert_eq!(code(outcome), CUresult::CUDA_ERROR_INVALID_VALUE, "{words}");
        assert!(machine.report().is_some_and(|r| r.contains(words)), "{words}: {:?}", machine.report());
    };
    let unlike = device.launch("control_increment", 1, 128, 0, (1u64, 2u64));
    refused(unlike, "given 16 bytes of parameters, the kernel's struct has 24");
    refused(device.launch("control_increment", 1, 256, 0, vector), "its launch bound is 128 threads");
    let empty = Device::open(PTX_75).expect("PTX of no kernel");
    assert_eq!(code(empty.kernel("control_increment")), CUresult::CUDA_ERROR_NOT_FOUND);
}

#[test]
fn faults_and_traffic_are_those_of_the_fences() {
    let machine = Machine::new(ptx());
    let _entered = machine.enter();
    let device = Device::open(&image(PLUS_TWO)).expect("open");
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
    let error = device.launch("control_increment", 1, 128, 0, Vector(input, output, 101)).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let report = machine.report().expect("a reason");
    for words in ["kernel control_increment", "thread 100", "behind the end of input (400 bytes)", "ld.global.f32"] {
        assert!(report.contains(words), "{report}");
    }
    // As on a GPU, nothing works in this process's context from now on.
    // SAFETY: allocates nothing.
    assert_eq!(code(unsafe { result::malloc_sync(64) }), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}
