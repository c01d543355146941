//! NVRTC through its C interface: CUDA C++ in, machine code or PTX out. Needs no GPU, driver or toolkit.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::Path,
    ptr,
};

use anyhow::{Context, Result, bail, ensure};
use libloading::Library;
use qrun_cuda::image::{Kind, Target};

/// The compiler whose output is committed: other versions give other bytes.
pub const VERSION: (i32, i32) = (12, 8);

/// For every kernel. ptxas reports registers and spills in the log.
pub const OPTIONS: [&str; 3] = ["-std=c++17", "--ptxas-options=-v", "--ptxas-options=-warn-spills"];

type Program = *mut c_void;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// The loaded library.
pub struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    cubin: (Size, Bytes),
    ptx: (Size, Bytes),
    log: (Size, Bytes),
    // Last: the functions above live in it.
    _library: Library,
}

/// What a compilation gave: the code, and ptxas' words about registers and spills.
pub struct Compiled {
    pub code: Vec<u8>,
    pub log: String,
}

impl Nvrtc {
    /// Loads `libnvrtc.so.12`; its builtins lie beside it.
    ///
    /// # Errors
    /// The library cannot be loaded, lacks a function, or is of another version than [`VERSION`].
    pub fn open(path: &Path) -> Result<Self> {
        // SAFETY: NVIDIA's library; its initialisers touch nothing of ours.
        let library = unsafe { Library::new(path) }.with_context(|| format!("opening {}", path.display()))?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the field that takes it has the signature of nvrtc.h; the library outlives it (see above).
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.context($name)?
            };
        }
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = symbol!("nvrtcVersion");
        let mut found = (0, 0);
        // SAFETY: writes two ints.
        unsafe { version(&mut found.0, &mut found.1) };
        ensure!(
            found == VERSION,
            "{}: expected NVRTC {}.{}, found {}.{}",
            path.display(),
            VERSION.0,
            VERSION.1,
            found.0,
            found.1
        );
        Ok(Self {
            create: symbol!("nvrtcCreateProgram"),
            compile: symbol!("nvrtcCompileProgram"),
            destroy: symbol!("nvrtcDestroyProgram"),
            error: symbol!("nvrtcGetErrorString"),
            cubin: (symbol!("nvrtcGetCUBINSize"), symbol!("nvrtcGetCUBIN")),
            ptx: (symbol!("nvrtcGetPTXSize"), symbol!("nvrtcGetPTX")),
            log: (symbol!("nvrtcGetProgramLogSize"), symbol!("nvrtcGetProgramLog")),
            _library: library,
        })
    }

    /// Compiles a `.cu` file, which includes files of its own folder.
    ///
    /// # Errors
    /// The file cannot be read, or does not compile; the message has the compiler's log.
    pub fn compile(&self, file: &Path, target: Target) -> Result<Compiled> {
        let name = file.file_name().context("a file name")?.to_string_lossy().into_owned();
        let include = format!("-I{}", file.parent().context("a folder")?.display());
        let text = std::fs::read(file).with_context(|| file.display().to_string())?;
        let (source, name) = (CString::new(text)?, CString::new(name)?);
        let mut program: Program = ptr::null_mut();
        // SAFETY: both strings end with a NUL and live through the call; no headers are passed.
        let code = unsafe { (self.create)(&mut program, source.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) };
        self.ok(code)?;
        let program = Guard { nvrtc: self, program };
        let options = OPTIONS.map(str::to_owned).into_iter().chain([format!("-arch={target}"), include]);
        let options: Vec<_> = options.map(|o| CString::new(o).expect("an option without NUL")).collect();
        let pointers: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program is alive and the options live through the call.
        let code = unsafe { (self.compile)(program.program, pointers.len() as c_int, pointers.as_ptr()) };
        let log = String::from_utf8_lossy(&program.read(self.log)?).trim_end_matches('\0').to_owned();
        if let Err(error) = self.ok(code) {
            bail!("{} for {target}: {error}\n{log}", file.display());
        }
        let code = program.read(if target.kind == Kind::Cubin { self.cubin } else { self.ptx })?;
        Ok(Compiled { code, log })
    }

    fn ok(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: returns a static string for every code.
        let text = unsafe { CStr::from_ptr((self.error)(code)) };
        bail!("{}", text.to_string_lossy());
    }
}

struct Guard<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl Guard<'_> {
    fn read(&self, (size, bytes): (Size, Bytes)) -> Result<Vec<u8>> {
        let mut n = 0;
        // SAFETY: the program is alive; writes one size.
        self.nvrtc.ok(unsafe { size(self.program, &mut n) })?;
        let mut out = vec![0u8; n];
        // SAFETY: NVRTC writes exactly the size that it has just named.
        self.nvrtc.ok(unsafe { bytes(self.program, out.as_mut_ptr().cast()) })?;
        Ok(out)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `create`, destroyed once.
        unsafe { (self.nvrtc.destroy)(&mut self.program) };
    }
}
