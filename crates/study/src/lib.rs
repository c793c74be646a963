//! Measurements that one can defend.
//!
//! A claim that something is faster is a ratio within one run: both sides in one process, round by
//! round in shuffled order, and the verdict goes by the interval of the paired ratios ([`judge`]).
//! [`mod@run`] measures whole maps that way; [`record`] keeps what came out, [`report`] shows it.
//!
//! ```
//! use study::judge::{Rule, Samples};
//!
//! // times of two contestants, round by round: the second takes twice as long, with some noise
//! let noise = |round: u32| 1.0 + f64::from(round % 7) / 100.0;
//! let first = (0..61).map(|round| 10.0 * noise(round)).collect();
//! let second = (0..61).map(|round| 20.0 * noise(round + 3)).collect();
//! let samples = Samples::from_times(&Rule::default(), vec![first, second])?;
//! let ratio = samples.speed(0, 1)?;
//! assert!(ratio.at_least(1.8) && !ratio.at_least(2.2));
//! # Ok::<(), study::judge::JudgeError>(())
//! ```

#![forbid(unsafe_code)]

pub mod analysis;
pub mod boots;
pub mod compare;
pub mod design;
pub mod judge;
pub mod matrix;
pub mod merge;
pub mod model;
pub mod record;
pub mod replace;
pub mod report;
pub mod run;
pub mod stats;
pub mod summary;
pub mod synthetic;
pub mod table;
pub mod words;

pub use record::read;
