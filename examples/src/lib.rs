//! Programs that show the crates at work; see the folder `examples` beside this file's.
//!
//! What several of them share is here: whose memory map is initialised, and what is kept of runs.

pub mod front;
pub mod keep;
pub mod machines;
pub mod trace;

/// The exit status of a program whose reader has seen enough: what a shell reports of one that was
/// ended by the signal for a closed pipe.
pub const CLOSED_PIPE: u8 = 128 + 13;

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
