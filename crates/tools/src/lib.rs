//! Programs around the crates, one file each under `src/bin`; see the task names of xtask.
#![forbid(unsafe_code)]
