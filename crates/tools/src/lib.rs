//! Programs around the crates, one file each under `src/bin`; see the task names of xtask.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod device_golden;
pub mod device_perf;
pub mod front;
pub mod guest;
pub mod overhead;
pub mod perf;
mod populated;
pub mod slurm;
pub mod soak;

pub use populated::populated;
