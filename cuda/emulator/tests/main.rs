//! Tests of the emulator: the facade through cudarc, and the checks on kernels with planted bugs.

mod bugs;
mod code;
mod controls;
mod device;
mod facade;
mod isa;
mod streams;
