//! Code as it is executed: decoded once, no strings.
//!
//! Every operand is a row of a register file, one value per lane: constants and special registers have rows of their
//! own, so an instruction never asks what kind of operand it has. Values of 16 and 32 bits share a file (16-bit ones
//! are kept zero-extended), those of 64 bits have another, predicates are masks of lanes.

use super::count::Class;
use rows::Uses;
use sass::{Bank, Control, Sass};

pub(super) mod compute;
pub(super) mod rows;
pub(super) mod sass;

/// One PTX text: an image of the archive.
#[derive(Debug, Clone)]
pub struct Module {
    /// The `.target`, as 75 or 80.
    pub sm: u32,
    pub(super) kernels: Vec<Kernel>,
}

impl Module {
    /// The kernel of this name (`.visible .entry`).
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }

    /// All kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }
}

/// A kernel, ready to run.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// As the text names it.
    pub name: String,
    /// The module's `.target`.
    pub sm: u32,
    /// The product of `.maxntid`; 1024 where there is none.
    pub max_threads: u32,
    /// Bytes of the parameters together.
    pub param_bytes: usize,
    /// Bytes of the shared arrays that are not dynamic.
    pub shared_bytes: usize,
    /// Registers of a thread in machine code; 0 of PTX.
    pub registers: u32,
    /// Shared arrays: name, offset, bytes (0 for the dynamic one).
    pub(super) shared: Vec<(String, usize, usize)>,
    pub(super) code: Vec<Instruction>,
    /// Of each instruction.
    pub(super) lines: Vec<(u32, Box<str>)>,
    pub(super) classes: Vec<Class>,
    /// Operands of `mma`: d, a, b, c.
    pub(super) lists: Vec<R>,
    pub(super) files: Files,
    /// Of machine code; PTX leaves the rest empty.
    pub(super) bank: Bank,
    /// What the compiler put into constant bank 2: jump tables and large constants.
    pub(super) table: Vec<u8>,
    /// Of each instruction: its control word, and the rows that it reads and writes.
    pub(super) controls: Vec<Control>,
    pub(super) uses: Vec<Uses>,
}

impl Kernel {
    /// Whether it was read from a cubin; else from PTX.
    pub(super) fn is_machine_code(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Whether it waits for the kernels before it somewhere (`griddepcontrol.wait`).
    pub(super) fn waits(&self) -> bool {
        self.lines.iter().any(|(_, text)| text.starts_with("ACQBULK") || text.contains("griddepcontrol.wait"))
    }

    /// Bytes of its own shared arrays, without those that the driver keeps.
    pub(super) fn own_shared_bytes(&self) -> usize {
        self.shared_bytes - if self.is_machine_code() { sass::reserved_shared(self.sm) } else { 0 }
    }

    /// Line in the text and the text itself of each instruction, by its index (that of [`super::KernelCounts::at`]).
    pub fn listing(&self) -> impl Iterator<Item = (u32, &str)> {
        self.lines.iter().map(|(line, text)| (*line, &**text))
    }
}

/// The index of a row, or of a predicate.
pub(super) type R = u16;

/// Rows of each file, and those that hold constants and special registers.
#[derive(Debug, Clone, Default)]
pub(super) struct Files {
    pub words: usize,
    pub longs: usize,
    pub predicates: usize,
    pub constants: Vec<(R, u32)>,
    pub long_constants: Vec<(R, u64)>,
    pub predicate_constants: Vec<(R, bool)>,
    pub specials: Vec<(R, Special)>,
}

/// `%tid.x` and the like; the number is the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
    Lane,
    /// Bits of the lanes below.
    LanesBelow,
    /// A word of constant bank 0, by its offset.
    Bank(u16),
}

/// `@p` or `@!p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard {
    pub predicate: R,
    pub not: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    pub op: Op,
    pub guard: Option<Guard>,
}

/// What is done. The first row is written, the others are read; the names of the lists say which file they belong to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Op {
    Unary(Unary, R, R),
    Binary(Binary, R, [R; 2]),
    Ternary(Ternary, R, [R; 3]),
    /// `bfi.b32`: the value, where it goes, position, length.
    Insert(R, [R; 4]),
    /// `mov.b32 {low, high}, x`.
    Halves([R; 2], R),
    /// 64-bit from 64-bit.
    UnaryLong(UnaryLong, R, R),
    BinaryLong(BinaryLong, R, [R; 2]),
    TernaryLong(TernaryLong, R, [R; 3]),
    /// 64-bit by a 32-bit count.
    ShiftLong(Shift, R, R, R),
    /// 64-bit from one or two of 32 bits.
    Widen(Widen, R, R),
    WidenTwo(WidenTwo, R, [R; 2]),
    /// 32-bit from 64-bit.
    Narrow(Narrow, R, R),
    /// `mov.b64 {low, high}, x`.
    Words([R; 2], R),
    /// `setp`; the kind says the file.
    Compare(Test, Kind, R, [R; 2]),
    /// Both operands, then the predicate.
    Select(R, [R; 2], R),
    SelectLong(R, [R; 2], R),
    Logic(Logic, R, [R; 2]),
    Load(Space, Access),
    Store(Space, Access),
    Atomic(Space, Atomic, Access, R),
    LoadMatrix {
        d: [R; 4],
        count: u8,
        transposed: bool,
        address: Address,
    },
    /// Index of the operands in `lists`.
    Mma(Mma, u32),
    /// To shared, from global, how many of the 16 bytes.
    Copy {
        to: Address,
        from: Address,
        bytes: R,
    },
    CopyCommit,
    CopyWait(u32),
    /// Asks L2 for the sector at an address; nothing waits for it.
    Prefetch(Address),
    Shuffle {
        how: Shuffle,
        d: R,
        valid: Option<R>,
        value: R,
        lane: R,
        clamp: R,
        members: R,
    },
    Ballot {
        d: R,
        predicate: R,
        members: R,
    },
    WarpBarrier(R),
    Barrier,
    /// `bar.red.or.pred`.
    BarrierOr(R, R),
    /// `membar`: whether the host is to see it.
    Fence(bool),
    Branch(u32),
    Return,
    /// What PTX does not have.
    Sass(Sass),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Move,
    Not,
    Not16,
    Negate,
    NegateF,
    AbsoluteF,
    Low16,
    Signed8To16,
    Signed8To32,
    RoundF,
    TruncateF,
    SaturateF,
    FromS32,
    FromU32,
    FromS16,
    ToS32,
    FromHalf,
    ToHalf,
    Exp2,
    Reciprocal,
    ReciprocalSqrt,
    ReciprocalExact,
    Sqrt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    DivideS,
    DivideU,
    RemainderS,
    RemainderU,
    And,
    Or,
    Xor,
    MinS,
    MaxS,
    MinU,
    MaxU,
    Left,
    RightU,
    RightS,
    Add16,
    Left16,
    RightU16,
    RightS16,
    Product16,
    Pack16,
    AddF,
    SubtractF,
    MultiplyF,
    DivideF,
    MinF,
    MaxF,
    AddZeroF,
    PackBf16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ternary {
    Mad,
    FusedF,
    FusedDownF,
    Dot4,
    Permute,
    FunnelLeftWrap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnaryLong {
    Move,
    Not,
    Negate,
    NegateF,
    RoundF,
    /// The lower half as a signed number.
    ExtendLow,
    FromS64,
    FromU64,
    ToS64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinaryLong {
    Add,
    Subtract,
    Multiply,
    MultiplyHigh,
    RemainderU,
    And,
    Or,
    Xor,
    MaxU,
    AddF,
    MultiplyF,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TernaryLong {
    FusedF,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shift {
    Left,
    RightU,
    RightS,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Widen {
    Unsigned,
    Signed,
    FloatToDouble,
    DoubleFromS32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WidenTwo {
    ProductS,
    ProductU,
    Pack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Narrow {
    Low,
    DoubleToFloat,
    DoubleToS32,
}

/// Of `setp`; the unordered ones (`U`) hold where an operand is NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    EqU,
    NeU,
    LtU,
    LeU,
    GtU,
    GeU,
    Nan,
    Num,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    U16,
    S16,
    U32,
    S32,
    F32,
    U64,
    S64,
    F64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
    /// Of the first operand, which stands twice.
    Not,
    Move,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Param,
    /// Constant bank 2 of machine code, by an address that is computed.
    Table,
    Shared,
    Global,
    /// Through the read-only cache: `.nc`.
    ReadOnly,
    /// Global, for a host that polls.
    Volatile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Atomic {
    Add,
    MinU,
    MaxU,
    MinS,
    MaxS,
    And,
    Or,
    Xor,
    Exchange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shuffle {
    Xor,
    Index,
    Up,
    Down,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mma {
    S8M8N8K16,
    S8M16N8K16,
    S8M16N8K32,
    F16M16N8K8,
    F16M16N8K16,
    Bf16M16N8K16,
}

/// Which file an element of a load or store lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    /// 16 bits in the file of words.
    Half,
    Word,
    Long,
}

/// A base row, of 64 bits where it is `long`, and what is added to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address {
    pub base: R,
    pub long: bool,
    /// 64 bits are two rows of words.
    pub pair: bool,
    /// The base is shifted to the left by so many bits.
    pub scale: u8,
    /// Another row that is added, and whether it has 64 bits.
    pub plus: Option<(R, bool)>,
    pub offset: i32,
}

impl Address {
    /// An offset alone.
    pub const fn at(offset: i32) -> Self {
        Self { base: 0, long: false, pair: false, scale: 0, plus: None, offset }
    }
}

/// `count` elements of `width` bytes each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub rows: [R; 4],
    pub count: u8,
    pub width: u8,
    pub signed: bool,
    pub file: File,
    pub address: Address,
}
