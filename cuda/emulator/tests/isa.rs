//! The machine that executes PTX, against the PTX manual: what an instruction has to give is written down here once more,
//! as plain functions and tables, and nothing is taken from the machine.

mod collectives;
mod control;
mod cost;
mod counts;
mod coverage;
mod faults;
mod floats;
mod fragments;
mod harness;
mod integers;
mod memory;
mod misuse;
mod params;
mod products;
mod records;
mod references;
mod rows;
mod sass;
mod subjects;
mod text;
mod trial;
mod visible;
mod weights;
