//! Every planted bug is found in the checked build, whatever the order, on both architectures where it exists there.

use crate::device::{Buffer, Device, PTX_75, PTX_80};
use cudarc::driver::result;
use qrun_emulator::{Config, Machine, Order};

/// Kernel, blocks, bytes of dynamic shared memory, `n`, and words of the report (alternatives separated by `|`).
type Bug = (&'static str, u32, u32, i32, &'static str);

/// Whether the reader or the writer ran first decides which of the two it is.
const UNORDERED: &str = "race: |nobody has written";

/// `a` and `b` hold 64 floats, `bytes` 256; blocks have 64 threads.
const BUGS: &[Bug] = &[
    ("read_past_end", 1, 0, 0, "thread 63 reads 4 bytes at memory 0 bytes behind the end of allocation 0 (256 bytes)"),
    ("write_past_end", 1, 0, 0, "writes 4 bytes at memory 0 bytes behind"),
    ("read_before_start", 1, 0, 0, "thread 0 reads 4 bytes at"),
    ("wide_load_crosses_end", 1, 0, 1, "needs an address that is a multiple of 16"),
    ("wide_load_crosses_end", 1, 0, 4, "reads 16 bytes at byte 244|reads 16 bytes at memory 0 bytes behind"),
    ("atomic_past_end", 1, 0, 0, "writes 4 bytes at memory"),
    ("prefix_of_host_memory", 1, 0, -1, "memory that is not the device's"),
    ("static_shared_index", 1, 0, 1, "uses index 8 outside of an array in memory.cu:"),
    ("static_shared_pointer", 1, 0, 1, "behind the end of tile (256 bytes)"),
    ("dynamic_shared", 1, 256, 1, "writes shared memory outside of all arrays"),
    ("dynamic_shared_before_start", 1, 256, 1, "writes shared memory outside of all arrays"),
    ("local_array", 1, 0, 1, "uses index 4 outside of an array"),
    ("uninitialised_shared", 1, 0, 0, "thread 63 reads byte 252 of 256 of the shared tile, which nobody has written"),
    ("shared_of_the_block_before", 2, 0, 0, "which nobody has written"),
    ("misaligned_word", 1, 0, 0, "needs an address that is a multiple of 4"),
    ("misaligned_vector", 1, 0, 0, "needs an address that is a multiple of 16"),
    ("misaligned_weights", 1, 0, 0, "needs an address that is a multiple of 8"),
    ("misaligned_atomic", 1, 0, 0, "uses an atomic at a misaligned address"),
    ("misaligned_async_copy", 1, 0, 0, "multiple"),
    ("misaligned_matrix_row", 1, 0, 0, "gives ldmatrix a row that is not aligned to 16 bytes"),
    ("shift_too_far", 1, 0, 2, "shifts by 3"),
    ("too_much_static_shared", 1, 0, 0, "shared memory: 51200 bytes static"),
    ("stack_too_deep", 1, 0, 0, "the end of the thread's stack"),
    ("no_barrier_before_read", 1, 0, 0, UNORDERED),
    ("no_barrier_before_reduction_result", 1, 0, 0, UNORDERED),
    ("no_barrier_before_overwrite", 1, 0, 0, "race: "),
    ("no_barrier_between_rounds", 1, 0, 0, "race: "),
    ("no_warp_sync", 1, 0, 0, UNORDERED),
    ("shuffle_is_no_warp_sync", 1, 0, 0, UNORDERED),
    ("warp_sync_is_no_barrier", 1, 0, 0, UNORDERED),
    ("no_warp_sync_before_ldmatrix", 1, 0, 0, UNORDERED),
    ("shared_sum_without_atomic", 1, 0, 0, "race: "),
    ("atomic_beside_plain_read", 1, 0, 0, "race: "),
    ("no_wait_for_async_copy", 1, 0, 80, "copies into it asynchronously"),
    ("wait_for_the_wrong_group", 1, 0, 80, "copies into it asynchronously"),
    ("no_commit", 1, 0, 80, "copies into it asynchronously"),
    ("wait_without_barrier", 1, 0, 0, UNORDERED),
    ("async_copy_over_what_is_read", 1, 0, 0, "race: "),
    ("blocks_write_one_cell", 2, 0, 0, "race: "),
    ("blocks_sum_without_atomic", 2, 0, 0, "race: "),
    ("overwrites_what_another_block_reads", 2, 0, 1, "race: "),
    ("overwrites_what_another_block_reads", 2, 0, 0, ""),
    ("reads_what_another_block_writes", 2, 0, -2, "race: "),
    ("ticket_without_fence", 2, 0, 0, "race: "),
    ("writes_after_it_arrived", 2, 0, 0, "race: "),
    ("barrier_on_two_sides", 1, 0, 0, "divergent barrier: "),
    ("barrier_in_uneven_loop", 1, 0, 0, "barrier"),
    ("barrier_after_exit", 1, 0, 0, "returned"),
    ("barrier_in_branch", 1, 0, 0, "wait"),
    ("shuffle_in_branch", 1, 0, 0, "returned"),
    ("shuffle_after_exit", 1, 0, 0, "returned"),
    ("two_sums_in_branches", 1, 0, 0, "divergent warp: "),
];

#[derive(Clone, Copy)]
#[repr(C)]
struct Params(u64, u64, u64, i32);

/// Runs a bug on a machine of its own; the report, if there is one.
fn run(bug: &Bug, sm: u32, order: Order) -> Option<String> {
    let &(name, blocks, shared, n, _) = bug;
    let machine = Machine::new(Config { sm, order, checked: true, ..Config::source() });
    let _entered = machine.enter();
    let device = Device::open(if sm == 75 { PTX_75 } else { PTX_80 }).expect("the emulator has a device");
    let (a, b) = (Buffer::new(&[0f32; 64]), Buffer::new(&[0f32; 64]));
    let (bytes, host) = (Buffer::new(&[0u8; 256]), [0u8; 256]);
    let mut params = Params(a.address, b.address, bytes.address, n);
    match n {
        -1 => params.2 = host.as_ptr() as u64, // a pointer of the host
        -2 => params.0 = b.address,            // reads where it writes
        _ => {}
    }
    let launched = device.launch(&format!("bug_{name}"), blocks, 64, shared, params);
    assert_eq!(launched.is_err(), machine.report().is_some(), "{name}");
    machine.report()
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in BUGS {
        for sm in [75, 80] {
            for order in [Order::Forward, Order::Reverse, Order::Random(3), Order::Random(8)] {
                let report = run(bug, sm, order).unwrap_or_default();
                let lacks = bug.3 == 80 && sm == 75; // nothing is asynchronous there
                let blind = bug.4.is_empty(); // a control: what it does depends on n
                if !(lacks || blind || (bug.4.split('|').any(|words| report.contains(words)) && report.contains(bug.0)))
                {
                    missed.push(format!("{} on sm {sm}, {order:?}: {report:?}", bug.0));
                }
                if (lacks || blind) && !report.is_empty() {
                    missed.push(format!("{} on sm {sm}, {order:?}: false alarm {report}", bug.0));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Link(u64, u64, u64, i32);

/// What a link does: the same numbers as in bugs/depend.cu.
const RIGHT: i32 = 0;
const READS_EARLY: i32 = 1;
const WRITES_EARLY: i32 = 2;
const NEVER_WAITS: i32 = 3;
const ONE_LANE_WAITS: i32 = 4;
const READS_A_CONSTANT_EARLY: i32 = 5;
const PREFETCHES_EARLY: i32 = 6;
/// In place of a link: the host waits for all before it.
const SYNCHRONIZED: i32 = -1;

/// A link of a chain: whether it depends on its predecessors, from which buffer, to which, and what it does.
type Launched = (bool, usize, usize, i32);

/// Runs a chain; the report, if there is one.
fn chain(sm: u32, links: &[Launched]) -> Option<String> {
    let machine = Machine::new(Config { sm, checked: true, ..Config::source() });
    let _entered = machine.enter();
    let device = Device::open(PTX_80).expect("the emulator has a device");
    let buffers = [0, 1, 2, 3].map(|_| Buffer::new(&[1f32; 64]));
    for &(depends, from, to, does) in links {
        if does == SYNCHRONIZED {
            result::ctx::synchronize().expect("nothing has failed");
            continue;
        }
        let link = Link(buffers[from].address, buffers[to].address, buffers[3].address, does);
        let launched = match depends {
            true => device.launch_dependent("depend_link", 64, link),
            false => device.launch("depend_link", 1, 64, 0, link),
        };
        if launched.is_err() {
            return Some(machine.report().expect("a report"));
        }
    }
    None
}

#[test]
fn kernels_wait_for_those_that_may_still_run() {
    let early = "reads byte 0 of 256 of allocation 1 in depend.cu:10 before depend_wait, and a kernel that may still run wrote it";
    #[rustfmt::skip]
    let cases: [(&[Launched], &str); 10] = [
        (&[(false, 0, 1, RIGHT), (true, 1, 2, RIGHT), (true, 2, 0, RIGHT)], ""),
        (&[(false, 0, 1, RIGHT), (true, 1, 2, READS_EARLY)], early),
        // Nor has what came before a predecessor ended, that waits by itself.
        (&[(false, 0, 1, RIGHT), (true, 0, 2, RIGHT), (true, 1, 0, READS_EARLY)], early),
        // All that came before a kernel that depends on nothing has.
        (&[(false, 0, 1, RIGHT), (false, 0, 2, RIGHT), (true, 1, 0, READS_EARLY)], ""),
        (&[(false, 0, 1, RIGHT), (false, 0, 0, SYNCHRONIZED), (true, 1, 0, READS_EARLY)], ""),
        (&[(false, 0, 1, RIGHT), (true, 1, 0, WRITES_EARLY)], "writes byte 0 of 256 of allocation 0 in depend.cu:11 before depend_wait, and a kernel that may still run read it"),
        (&[(false, 0, 1, RIGHT), (true, 3, 2, NEVER_WAITS)], "returned without depend_wait"),
        (&[(false, 0, 1, RIGHT), (true, 1, 2, ONE_LANE_WAITS)], "before depend_wait"),
        (&[(false, 0, 1, RIGHT), (true, 1, 2, READS_A_CONSTANT_EARLY)], ""),
        (&[(false, 0, 1, RIGHT), (true, 1, 2, PREFETCHES_EARLY)], ""),
    ];
    for (links, expected) in cases {
        let report = chain(90, links).unwrap_or_default();
        assert!(report.contains(expected) && report.is_empty() == expected.is_empty(), "{links:?}: {report:?}");
    }
    let report = chain(89, &[(true, 0, 1, RIGHT)]).expect("a report");
    assert!(report.contains("from SM 9.0 on"), "{report}");
}
