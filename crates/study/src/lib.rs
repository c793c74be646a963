//! Measurements that one can defend.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod compare;
pub mod design;
pub mod judge;
pub mod matrix;
pub mod merge;
pub mod model;
pub mod record;
pub mod report;
pub mod run;
pub mod stats;
pub mod summary;
pub mod synthetic;
pub mod table;
pub mod words;

pub use record::read;
