//! What is done with the bytes of one input.

pub mod readers;
pub mod scripts;
