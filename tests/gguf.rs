//! GGUF in and out: what the writer puts down the reader gives back, and hostile files are refused.

mod round_trip;
