//! Tokenizers against the public implementations, and against bad vocabularies.

mod shared;
