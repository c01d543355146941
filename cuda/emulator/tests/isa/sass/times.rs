//! What the machine tells of the blocks of shipped machine code, and what is made of that.

use qrun_emulator::{
    Order,
    isa::{
        self, Approximation, Counts, Keep, Launch, Module,
        cost::{CARDS, Work, estimate},
    },
};

use crate::isa::{
    harness::Memory,
    sass::shipped::{SMS, cubins},
    trial::Params,
};

/// Bytes of shared memory of a block: twice the sums of 128 chunks for 16 rows, the totals of 8 row tiles.
const SHARED: u32 = 4 * (2 * 128 * 16 + 8 * 16);

/// product_1_q8_0 of 128 rows of 2048 weights, in 8 blocks, of which 3 are traced; then once more.
fn launched(module: &Module) -> Counts {
    let mut memory = Memory::default();
    let mut put = |bytes: usize| memory.put(&vec![0u8; bytes]);
    let params = Params::new("MatmulParams")
        .set("segment.Segment.w", put(128 * 2048 / 32 * 34))
        .set("segment.Segment.y", put(4 * 128))
        .set("segment.Segment.rows", 128)
        .set("segment.Segment.y_stride", 128)
        .set("segment.Segment.format", 8)
        .set("segments", 1)
        .set("k", 2048)
        .set("columns", 1)
        .cut(1, 4, 2048)
        .set("image.QuantizedActivations.q", put(2048))
        .set("image.QuantizedActivations.d", put(4 * 64))
        .set("image.QuantizedActivations.s", put(4 * 128));
    let launch = Launch {
        kernel: module.kernel("product_1_q8_0").expect("it is shipped"),
        params: &params.bytes,
        grid: [8, 1, 1],
        block: [128, 1, 1],
        dynamic_shared: 0,
        shared_limit: 48 << 10,
        order: Order::Forward,
        seed: 0,
        ends: 0,
        dependent: false,
        approximation: Approximation::Exact,
        memory: &memory,
    };
    let mut counts = Counts { keep: Keep { launches: true, traced: 3, ..Keep::default() }, ..Counts::default() };
    for _ in 0..2 {
        isa::run(&launch, &mut counts).unwrap_or_else(|fault| panic!("{}", fault.report));
    }
    counts
}

#[test]
#[ignore = "reads machine code with nvdisasm: `cargo run -p qrun-kernels -- check --install` puts it into target/nvrtc"]
fn traces_have_what_was_counted() {
    for sm in SMS {
        let module = cubins(sm)["product"].parsed();
        let counts = launched(&module);
        let [launch] = counts.launches.as_slice() else { panic!("sm_{sm}: two launches of one shape") };
        assert_eq!((launch.times, launch.grid, launch.threads, launch.shared), (2, [8, 1, 1], 128, SHARED), "sm_{sm}");
        // The second one was not executed and has counted all the same.
        assert_eq!(counts.warp_instructions(), 2 * launch.counts.warp_instructions());
        assert_eq!(counts.kernel("product_1_q8_0").launches, 2);
        assert!((40..=128).contains(&launch.registers), "sm_{sm}: {} registers", launch.registers);
        // Blocks of a product do the same, each for rows of its own, but for where its sectors begin.
        let (of_three, of_all) = (launch.trace.iter(), launch.counts.sum(&[]));
        let steps = of_three.clone().flat_map(|b| &b.warps).flatten();
        let sectors: u64 = steps.clone().map(|step| u64::from(step.sectors)).sum();
        assert!(8 * steps.count() as u64 >= 3 * of_all.executed, "sm_{sm}: steps are missing");
        let expected = 3.0 / 8.0 * of_all.sectors as f64;
        assert!((sectors as f64 - expected).abs() < 0.02 * expected, "sm_{sm}: {sectors}, expected {expected}");
        assert_eq!((launch.trace.len(), of_three.map(|b| b.warps.len()).max()), (3, Some(4)));
        for card in CARDS.iter().filter(|card| card.sm == sm) {
            let work = Work {
                issues: &launch.issues,
                trace: &launch.trace,
                average: launch.average(),
                blocks: 8,
                threads: launch.threads,
                registers: launch.registers,
                shared: launch.shared,
                distinct: Some(launch.counts.sectors_read),
                hot: &|_| false,
            };
            let found = estimate(&work, card).expect("a trace");
            // 279 kB by 8 SMs: longer than two round trips to DRAM, shorter than a hundred.
            let trip = card.dram_ns[0] / 1e3;
            assert!(found.floor.us > 2.0 * trip && found.high.us < 100.0 * trip, "{}: {found:?}", card.name);
            assert!(found.floor.us <= found.low.us && found.low.us <= found.high.us, "{}: {found:?}", card.name);
        }
    }
}
