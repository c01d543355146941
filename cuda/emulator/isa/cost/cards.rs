//! Cards: vendors' and measured numbers.
//!
//! Grades: M measured on that silicon by a public microbenchmark, V a vendor's document, D derived from these by
//! arithmetic, G a guess. Measurements are those of gpu-benches (A40, A100, L40, H100 PCIe, H200), of tu102 (Quadro RTX
//! 6000) and, where nothing else is said, vendors' tables of compute capabilities.

/// The ends of what is known, the better one first.
pub type Range = [f64; 2];

/// A card, and a clock it runs at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Card {
    /// For people.
    pub name: &'static str,
    /// Compute capability, as 75.
    pub sm: u32,
    /// How many SMs it has.
    pub sms: u32,
    /// Clock of the SMs.
    pub ghz: Range,
    /// GB/s that a kernel can read of DRAM.
    pub dram: Range,
    /// Nanoseconds that DRAM takes longer than L2.
    pub dram_ns: Range,
    /// GB/s that all SMs together read of L2.
    pub l2: f64,
    /// Clocks until a sector in L2 is there.
    pub l2_clocks: Range,
    /// Clocks until a sector in L1 is there.
    pub l1_clocks: f64,
    /// Sectors that L1 delivers per clock: of whole lines always the first, scattered ones maybe only the second.
    pub sectors: Range,
    /// Bytes of an SM's L1 and shared memory together.
    pub l1_bytes: u32,
    /// Bytes of shared memory of an SM.
    pub shared_bytes: u32,
    /// Warps that an SM holds.
    pub warps: u32,
    /// Blocks that an SM holds.
    pub blocks: u32,
    /// Microseconds from a node of a graph to the next one.
    pub node: f64,
}

/// All cards. Where two clocks of a card differ much, it stands here twice.
pub const CARDS: [Card; 8] = [
    T4,
    // Under load its 70 W allow 0.9 – 1.3 GHz (G).
    Card { name: "T4 at 1.1 GHz", ghz: [1.1, 1.1], ..T4 },
    // DRAM: V 360 GB/s, D 91 – 97 % (A40, M: 97 %). Latencies: G between A40 and L40. L2: G.
    Card {
        name: "RTX 3060",
        sm: 86,
        sms: 28,
        ghz: [1.777, 1.777],
        dram: [350.0, 325.0],
        dram_ns: [170.0, 210.0],
        l2: 1200.0,
        l2_clocks: [220.0, 280.0],
        l1_clocks: 36.0,
        sectors: [2.0, 1.0],
        l1_bytes: 128 << 10,
        shared_bytes: 100 << 10,
        warps: 48,
        blocks: 16,
        node: 1.09,
    },
    // DRAM: V 1008 GB/s, 930 – 955 reported, M 98 % on L40. The rest: M on L40.
    Card {
        name: "RTX 4090",
        sm: 89,
        sms: 128,
        ghz: [2.52, 2.52],
        dram: [988.0, 930.0],
        dram_ns: [130.0, 157.0],
        l2: 5200.0,
        l2_clocks: [260.0, 290.0],
        l1_clocks: 36.0,
        sectors: [2.0, 1.0],
        l1_bytes: 128 << 10,
        shared_bytes: 100 << 10,
        warps: 48,
        blocks: 24,
        node: 0.94,
    },
    // DRAM: V 960 GB/s, G 90 – 97 %. L1: G as RTX 4090. L2, latencies, node: G.
    Card {
        name: "RTX 5080",
        sm: 120,
        sms: 84,
        ghz: [2.62, 2.62],
        dram: [930.0, 860.0],
        dram_ns: [140.0, 220.0],
        l2: 4500.0,
        l2_clocks: [260.0, 340.0],
        l1_clocks: 36.0,
        sectors: [2.0, 1.0],
        l1_bytes: 128 << 10,
        shared_bytes: 100 << 10,
        warps: 48,
        blocks: 24,
        node: 1.0,
    },
    // DRAM: V 2039 GB/s, M 1640 read, 1884 written. L2 211 clocks, farther partition more; DRAM 572: M.
    Card {
        name: "A100 80 GB",
        sm: 80,
        sms: 108,
        ghz: [1.41, 1.41],
        dram: [1884.0, 1640.0],
        dram_ns: [230.0, 275.0],
        l2: 5400.0,
        l2_clocks: [211.0, 260.0],
        l1_clocks: 36.0,
        sectors: [4.0, 2.0],
        l1_bytes: 192 << 10,
        shared_bytes: 164 << 10,
        warps: 64,
        blocks: 32,
        node: 1.34,
    },
    H100,
    // DRAM: V 4800 GB/s, M 3900 written, 4201 read of 70 MB, D 92 %. L2 and node: M.
    Card { name: "H200", ghz: [1.98, 1.98], dram: [4420.0, 3900.0], l2: 10200.0, ..H100 },
];

/// DRAM: V 320 GB/s, M 220 – 265, D 91 % as TU102. L2: D from TU102 by memory controllers. Latencies, L1 and node: M on
/// TU102.
const T4: Card = Card {
    name: "T4 at 1.59 GHz",
    sm: 75,
    sms: 40,
    ghz: [1.59, 1.59],
    dram: [290.0, 220.0],
    dram_ns: [130.0, 170.0],
    l2: 810.0,
    l2_clocks: [220.0, 260.0],
    l1_clocks: 34.0,
    sectors: [2.0, 1.0],
    l1_bytes: 96 << 10,
    shared_bytes: 64 << 10,
    warps: 32,
    blocks: 16,
    node: 0.91,
};

/// DRAM: V 3352 GB/s, G 2900, D 92 % as the PCIe card. Latencies, L1, L2: M on that. Node: that of H200.
const H100: Card = Card {
    name: "H100",
    sm: 90,
    sms: 132,
    ghz: [1.98, 1.755],
    dram: [3084.0, 2900.0],
    dram_ns: [205.0, 245.0],
    l2: 7100.0,
    l2_clocks: [250.0, 290.0],
    l1_clocks: 34.0,
    sectors: [4.0, 2.0],
    l1_bytes: 256 << 10,
    shared_bytes: 228 << 10,
    warps: 64,
    blocks: 32,
    node: 1.26,
};
