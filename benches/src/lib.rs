//! Baselines for the benchmarks beside this file: what Linux does, in C, compiled as a kernel is.

pub mod capi;
pub mod device;
pub mod kernel;
pub mod memblock;
