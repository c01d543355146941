//! An instruction's pipe, interval and latency, by the name that nvdisasm gives it.
//!
//! An interval is the clocks between two warp instructions of that kind on one of an SM's four schedulers (2: 16 lanes),
//! lower and higher where that is not settled. Sources, as in [`super::cards`]: [TU] tu102 for sm_75; [SD] public
//! measurements with streams assembled by hand on A100, H100, RTX 5090; [NV] NVIDIA's table of throughputs. M, V, D, G
//! are the grades.

use std::fmt;

use super::super::Control;

/// What executes an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pipe {
    /// Multiplication, of integers too.
    Fma,
    /// Simple float instructions, where a second half of the pipe takes them too: sm_86 and later.
    FmaLite,
    /// Integers, comparisons, logic, moves.
    Alu,
    /// Pairs of halves, and widening them.
    Half,
    /// Conversions, `MUFU`, `POPC`.
    Special,
    /// f64.
    Double,
    /// `HMMA`, `IMMA`.
    Tensor,
    /// One value for the warp.
    Uniform,
    /// Memory and exchanges between lanes: one path per SM.
    Load,
    /// An issue slot alone.
    Control,
}

impl Pipe {
    /// How many there are, [`Self::Control`] among them.
    pub const COUNT: usize = 10;
}

/// What else an instruction does to the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: its result is there a latency after its pipe took it.
    Compute,
    /// `LDG`; whether past L1.
    Load(bool),
    /// `STG`, `RED`.
    Store,
    /// `ATOMG`: the old value comes back from L2.
    Atomic,
    /// `LDGSTS`.
    Copy,
    /// `CCTL.PF2`: L2 is asked for sectors, and nothing waits for them.
    Prefetch,
    /// `LDGDEPBAR`: a group of copies ends.
    CopyCommit,
    /// `DEPBAR.LE`: until at most so many groups are under way.
    CopyWait(u8),
    /// `BAR`: the warps of the block wait for each other.
    Barrier,
    /// Control flow, which costs more where it is taken.
    Branch,
    /// `MEMBAR`: until stores are in L2.
    Fence,
}

/// How an instruction is issued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Issue {
    /// Stall count, barriers, wait mask.
    pub control: Control,
    /// What executes it.
    pub pipe: Pipe,
    /// Clocks of the pipe, lower and higher. Of [`Pipe::Load`], which an SM has once, in clocks of the SM, and per pass.
    pub interval: [f32; 2],
    /// Clocks until the result is there, where its barrier says when that is; memory adds its own.
    pub latency: f32,
    /// What else it does.
    pub kind: Kind,
}

/// SMs of a column of the tables.
const fn column(sm: u32) -> usize {
    match sm {
        0..80 => 0,
        80..86 => 1,
        86..90 => 2,
        90..120 => 3,
        _ => 4,
    }
}

/// Opcodes with the parts of their names that they must have, pipe, intervals on sm_75, 80, 86 and 89, 90, 120 (the
/// higher ones only where they differ), latency.
type Row = (&'static str, Pipe, [f32; 5], Option<[f32; 5]>, f32);

/// The first row that fits counts; what fits none is of the ALU.
const ROWS: &[Row] = &[
    // 75 M[TU], 80 M[SD]; 86 V[NV]: both halves of the pipe take it, each every second clock; 90 and 120 M[SD]: the
    // same with reuse bits, else half.
    ("FFMA FADD FMUL", Pipe::FmaLite, [2.0; 5], Some([2.0, 2.0, 2.0, 4.0, 4.0]), 4.0),
    // Two passes, M[SD].
    ("IMAD.WIDE IMAD.HI", Pipe::Fma, [4.0; 5], None, 5.0),
    // 75 M[TU], else M[SD] and V[NV].
    ("IMAD IDP IMUL FSWZADD", Pipe::Fma, [2.0; 5], None, 4.0),
    // 75 M[TU] as a pair with F2F, else M[SD] and V[NV].
    ("HADD2 HMUL2 HFMA2", Pipe::Half, [2.0; 5], Some([4.0, 2.0, 2.0, 2.0, 2.0]), 6.0),
    // ALU from the SM on whose compiler chooses them: V, M[SD].
    ("I2FP F2FP", Pipe::Alu, [2.0; 5], None, 5.0),
    // 75 M[TU], 80 and 86 V[NV], 90 and 120 M[SD]; F2I of sm_120 by a footnote of NVIDIA's 64, unsettled.
    ("F2I", Pipe::Special, [8.0; 5], Some([8.0, 8.0, 8.0, 8.0, 64.0]), 15.0),
    // 75 M[TU], 80 and 90 M[SD], 86 and 120 V.
    ("I2F F2F FRND MUFU POPC FLO FCHK", Pipe::Special, [8.0; 5], None, 15.0),
    // 75 M[TU], 80 and 90 and 120 M[SD], 86 V.
    ("DADD DMUL DFMA DSETP", Pipe::Double, [76.0, 4.0, 64.0, 2.0, 64.0], None, 48.0),
    // 75 M[TU]; 80 D from 312 TFLOP/s; 86 D (GeForce: half rate); 90 D (62 % of the wgmma peak); 120 M.
    ("HMMA.1688", Pipe::Tensor, [8.0, 4.0, 16.0, 3.2, 16.0], None, 27.0),
    ("HMMA.16816", Pipe::Tensor, [16.0, 8.0, 32.0, 6.5, 32.0], None, 33.0),
    // 75 M[TU], 80 D from 624 TOPS, 86 D, 90 D, 120 M[SD].
    ("IMMA.8816", Pipe::Tensor, [4.0, 4.0, 8.0, 3.2, 16.0], None, 20.0),
    ("IMMA.16816", Pipe::Tensor, [8.0, 4.0, 8.0, 3.2, 16.0], None, 27.0),
    ("IMMA.16832", Pipe::Tensor, [16.0, 8.0, 16.0, 6.5, 16.0], None, 27.0),
    // 75 M[TU], else V.
    ("VOTE", Pipe::Alu, [4.0, 2.0, 2.0, 2.0, 1.0], None, 12.0),
    // 75 M[TU]: 64 bytes per clock, so that 32 lanes take two; else 128 bytes per clock (V, D).
    ("SHFL", Pipe::Load, [2.0, 1.0, 1.0, 1.0, 1.0], None, 23.0),
    ("LDS STS LDSM ATOMS", Pipe::Load, [2.0, 1.0, 1.0, 1.0, 1.0], None, 22.0),
    // The path takes as long as its lines and sectors.
    ("LDG STG RED REDG ATOMG LDGSTS CCTL.E.PF2", Pipe::Load, [0.0; 5], None, 0.0),
    // M[TU], the second G.
    ("LDC S2R B2R", Pipe::Load, [1.0; 5], Some([2.0; 5]), 26.0),
    ("LDCU S2UR R2UR VOTEU", Pipe::Uniform, [1.0; 5], Some([2.0; 5]), 13.0),
    (
        "BRA BRX CALL RET EXIT BSSY BSYNC BREAK BMOV WARPSYNC YIELD ENDCOLLECTIVE NOP BAR",
        Pipe::Control,
        [1.0; 5],
        None,
        12.0,
    ),
    ("MEMBAR ERRBAR CGAERRBAR CCTL DEPBAR LDGDEPBAR PREEXIT ACQBULK", Pipe::Control, [1.0; 5], None, 12.0),
    // 120: an ALU of the light ones beside the other, M[SD].
    ("IADD MOV SEL ISETP FSETP FMNMX VIADD", Pipe::Alu, [2.0, 2.0, 2.0, 2.0, 1.0], Some([2.0; 5]), 4.0),
];

/// Instructions on uniform registers begin with U: 1 per clock M[SD] on sm_120, else G.
const UNIFORM: Row = ("U", Pipe::Uniform, [1.0; 5], Some([2.0; 5]), 5.0);
/// 75 M[TU], 80 and 90 M[SD], 86 V[NV].
const OTHER: Row = ("", Pipe::Alu, [2.0; 5], None, 5.0);

/// Whether a name is this opcode with these modifiers.
fn is(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Issue {
    /// Of a line of a listing, as `@!P0 LDG.E.128.CONSTANT R4, [R2.64+0x10]`.
    pub fn new(sm: u32, text: &str, control: Control) -> Self {
        let text = if text.starts_with('@') { text.split_once(' ').map_or("", |(_, rest)| rest) } else { text };
        let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
        let fits = |row: &&Row| row.0.split(' ').any(|prefix| is(name, prefix));
        let row = ROWS.iter().find(fits).unwrap_or(if name.starts_with('U') { &UNIFORM } else { &OTHER });
        let (_, pipe, low, high, latency) = *row;
        let at = column(sm);
        let lite = pipe == Pipe::FmaLite && at < 2;
        Self {
            control,
            pipe: if lite { Pipe::Fma } else { pipe },
            interval: [low[at], high.unwrap_or(low)[at]],
            latency,
            kind: kind(name, operands),
        }
    }
}

fn kind(name: &str, operands: &str) -> Kind {
    match name.split('.').next().unwrap_or_default() {
        "LDG" => Kind::Load(name.contains("STRONG")),
        "STG" | "RED" | "REDG" => Kind::Store,
        "ATOMG" => Kind::Atomic,
        "LDGSTS" => Kind::Copy,
        "CCTL" if name.contains("PF2") => Kind::Prefetch,
        "LDGDEPBAR" => Kind::CopyCommit,
        "DEPBAR" => {
            let groups = operands.rsplit(',').next().unwrap_or_default().trim();
            let groups = groups.strip_prefix("0x").and_then(|hex| u8::from_str_radix(hex, 16).ok());
            Kind::CopyWait(groups.unwrap_or(0))
        }
        "BAR" => Kind::Barrier,
        "BRA" | "BRX" | "CALL" | "RET" | "BSYNC" => Kind::Branch,
        "MEMBAR" => Kind::Fence,
        _ => Kind::Compute,
    }
}

/// What a launch may have to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Bandwidth of DRAM.
    Dram,
    /// Bandwidth of L2, or of an SM's port to it.
    L2,
    /// The path of loads and stores of an SM: lines, sectors, passes over banks.
    LoadPath,
    /// The schedulers' slots.
    Issue,
    /// A pipe.
    Pipe(Pipe),
    /// None of these: what one warp does one after the other, with too few warps beside it.
    Latency,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dram => f.write_str("DRAM"),
            Self::L2 => f.write_str("L2"),
            Self::LoadPath => f.write_str("load path"),
            Self::Issue => f.write_str("issue slots"),
            Self::Pipe(pipe) => write!(f, "pipe {pipe:?}"),
            Self::Latency => f.write_str("latency"),
        }
    }
}
