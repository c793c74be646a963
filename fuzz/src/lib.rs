//! What is done with the bytes of one input.

pub mod c_abi;
pub mod readers;
pub mod scripts;
