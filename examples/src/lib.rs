//! Programs that show the crates at work; see the folder `examples` beside this file's.

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
