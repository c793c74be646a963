//! Measurements that one can defend.

#![forbid(unsafe_code)]

pub mod judge;
pub mod merge;
pub mod record;
pub mod report;
pub mod stats;
pub mod sweep;
pub mod synthetic;
pub mod table;

pub use record::read;
