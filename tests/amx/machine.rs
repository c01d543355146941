//! AMX in software: a handler of SIGILL that decodes the instruction at fault, does what Intel's manual says, and goes on behind it.
//! Strict: what the processor would refuse ends the process.

use std::{
    cell::RefCell,
    ffi::{c_int, c_void},
    slice,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use nix::{
    libc::{self, siginfo_t, ucontext_t},
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
};

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether it takes SIGILL of this process.
pub fn is_installed() -> bool {
    IS_INSTALLED.load(Relaxed)
}

/// Takes SIGILL of this process from now on.
pub fn install() {
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_NODEFER;
    let action = SigAction::new(SigHandler::SigAction(handle), flags, SigSet::empty());
    // SAFETY: the handler touches memory of its own thread, and what the instruction names.
    unsafe { sigaction(Signal::SIGILL, &action) }.expect("a handler of SIGILL");
    IS_INSTALLED.store(true, Relaxed);
}

/// Products of tiles that this thread has executed.
pub fn products() -> usize {
    STATE.with_borrow(|state| state.products)
}

/// Whether registers of this thread are configured.
pub fn is_configured() -> bool {
    STATE.with_borrow(|state| state.is_configured)
}

thread_local! {
    static STATE: RefCell<State> = const { RefCell::new(State::NEW) };
}

#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    row_bytes: usize,
    bytes: [[u8; 64]; 16],
}

struct State {
    is_configured: bool,
    tiles: [Tile; 8],
    products: usize,
}

extern "C" fn handle(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context of the instruction, which nobody else has.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let rip = registers[libc::REG_RIP as usize];
    // SAFETY: the instruction was fetched from there; those of AMX are followed by others.
    let code = unsafe { slice::from_raw_parts(rip as *const u8, 10) };
    let length = STATE.with_borrow_mut(|state| {
        execute(state, code, |r| {
            const ORDER: [c_int; 8] = [
                libc::REG_RAX,
                libc::REG_RCX,
                libc::REG_RDX,
                libc::REG_RBX,
                libc::REG_RSP,
                libc::REG_RBP,
                libc::REG_RSI,
                libc::REG_RDI,
            ];
            registers[ORDER.get(r).map_or_else(|| r - 8 + libc::REG_R8 as usize, |&r| r as usize)] as usize
        })
    });
    match length {
        Some(n) => registers[libc::REG_RIP as usize] += n as i64,
        None => {
            eprintln!("SIGILL at {code:02x?}");
            std::process::abort()
        }
    }
}

/// Executes the instruction; its length, `None` where it is none of AMX or not allowed.
fn execute(state: &mut State, code: &[u8], register: impl Fn(usize) -> usize) -> Option<usize> {
    let &[0xc4, a, b, opcode, modrm, ref rest @ ..] = code else { return None };
    // Map 0F 38, W and L are 0.
    if a & 31 != 2 || b & 0x84 != 0 {
        return None;
    }
    let (reg, rm, is_register) = (usize::from(modrm >> 3 & 7), usize::from(modrm & 7), modrm >> 6 == 3);
    let third = usize::from(!b >> 3 & 15);
    let prefix = ["", "66", "F3", "F2"][usize::from(b & 3)];
    if is_register {
        match (opcode, prefix, modrm) {
            (0x49, "", 0xc0) => *state = State { products: state.products, ..State::NEW },
            (0x49, "F2", _) if rm == 0 => state.tile(reg)?.bytes = [[0; 64]; 16],
            (0x5e, ..) => {
                let [signed_a, signed_b] = [matches!(prefix, "F2" | "F3"), matches!(prefix, "F2" | "66")];
                state.multiply([reg, rm, third], [signed_a, signed_b])?;
            }
            _ => return None,
        }
        return Some(5);
    }
    // A base, perhaps an index, and no displacement of 32 bits.
    let extended = |bit: u8| if a >> bit & 1 == 0 { 8 } else { 0 };
    let (base, stride, mut n) = match rm {
        4 => {
            let (sib, index) = (rest[0], usize::from(rest[0] >> 3 & 7) + extended(6));
            let stride = if index == 4 { 0 } else { register(index) << (sib >> 6) };
            (register(usize::from(sib & 7) + extended(5)), stride, 6)
        }
        _ => (register(rm + extended(5)), 0, 5),
    };
    let displacement = match modrm >> 6 {
        0 if rm == 5 || (rm == 4 && rest[0] & 7 == 5) => return None,
        0 => 0,
        1 => {
            n += 1;
            code[n - 1] as i8 as isize
        }
        _ => return None,
    };
    let memory = base.wrapping_add_signed(displacement);
    match (opcode, prefix) {
        // SAFETY: the instruction reads 64 bytes from there.
        (0x49, "") if reg == 0 => state.configure(unsafe { &*(memory as *const [u8; 64]) })?,
        (0x4b, "F2" | "F3") if rm == 4 => {
            let tile = state.tile(reg)?;
            for (i, row) in tile.bytes.iter_mut().take(tile.rows).enumerate() {
                let memory = memory.wrapping_add(i * stride) as *mut u8;
                // SAFETY: the instruction reads or writes these bytes of each row.
                unsafe {
                    match prefix {
                        "F2" => memory.copy_to(row.as_mut_ptr(), tile.row_bytes),
                        _ => memory.copy_from(row.as_ptr(), tile.row_bytes),
                    }
                }
            }
        }
        _ => return None,
    }
    Some(n)
}

impl State {
    const NEW: Self =
        Self { is_configured: false, tiles: [Tile { rows: 0, row_bytes: 0, bytes: [[0; 64]; 16] }; 8], products: 0 };

    fn configure(&mut self, config: &[u8; 64]) -> Option<()> {
        let reserved = config[2..16].iter().chain(&config[32..48]).chain(&config[56..]).all(|&byte| byte == 0);
        if config[..2] != [1, 0] || !reserved {
            return None;
        }
        for (i, tile) in self.tiles.iter_mut().enumerate() {
            let row_bytes = usize::from(config[16 + 2 * i]) + 256 * usize::from(config[17 + 2 * i]);
            *tile = Tile { rows: config[48 + i].into(), row_bytes, ..Self::NEW.tiles[0] };
            if tile.rows > 16 || row_bytes > 64 || (tile.rows == 0) != (row_bytes == 0) {
                return None;
            }
        }
        self.is_configured = true;
        Some(())
    }

    /// A register that is configured.
    fn tile(&mut self, i: usize) -> Option<&mut Tile> {
        self.tiles.get_mut(i).filter(|tile| tile.rows > 0)
    }

    /// Adds to `c` the products of groups of four bytes of `a` and `b`.
    fn multiply(&mut self, [c, a, b]: [usize; 3], signed: [bool; 2]) -> Option<()> {
        let (a_tile, b_tile) = (*self.tile(a)?, *self.tile(b)?);
        let c_tile = self.tile(c)?;
        let fits =
            a_tile.row_bytes == 4 * b_tile.rows && [c_tile.rows, c_tile.row_bytes] == [a_tile.rows, b_tile.row_bytes];
        if !fits || c == a || c == b || a == b {
            return None;
        }
        let [of_a, of_b] =
            signed.map(|signed| move |byte: u8| if signed { i32::from(byte as i8) } else { i32::from(byte) });
        for m in 0..c_tile.rows {
            for n in 0..c_tile.row_bytes / 4 {
                let word = &mut c_tile.bytes[m][4 * n..][..4];
                let mut sum = i32::from_le_bytes(word.try_into().ok()?);
                for k in 0..a_tile.row_bytes {
                    let (x, w) = (of_a(a_tile.bytes[m][k]), of_b(b_tile.bytes[k / 4][4 * n + k % 4]));
                    sum = sum.wrapping_add(x * w);
                }
                word.copy_from_slice(&sum.to_le_bytes());
            }
        }
        self.products += 1;
        Some(())
    }
}
