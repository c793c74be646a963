//! Measurements that one can defend.

#![forbid(unsafe_code)]

pub mod judge;
pub mod table;
