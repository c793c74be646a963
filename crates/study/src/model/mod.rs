//! How time depends on threads: three models, fitted to a few runs.
//!
//! - **Amdahl**: a part of the work is one thread's, the rest is shared.
//! - **Universal Scalability Law** (Gunther): beside that, each thread costs every other one.
//! - **Roofline**: threads × what one core streams, against what the node's memory takes; a knee says how
//!   gradually the one gives way to the other: `rate = ((core × n)^-k + node^-k)^(-1/k)`.
//!
//! All are of one node: its threads, its share of the work. A host takes as long as its slowest node.
//! Which model fits is decided by the runs that it is fitted to and by nothing else ([`choose`]).
//!
//! # Limits
//! A model knows no frequency steps, no second threads of a core and no neighbours. Beyond the threads,
//! the host and the memory that it was fitted to it extrapolates, and every [`Prediction`] says so.

mod calibrate;
mod fit;
mod held;
#[cfg(test)]
mod jordan;
mod predict;

use std::fmt;

pub use calibrate::{CalibrateError, Calibration, Measured};
pub use fit::{Chosen, FitError, choose, fit};
pub use held::Held;
pub use predict::{Basis, Prediction, predict};

/// A time that was measured with a number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Threads.
    pub threads: f64,
    /// Time, in any unit.
    pub time: f64,
}

/// The kinds of models, the one that explains most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Cores against node bandwidth.
    Roofline,
    /// Serial part and mutual hindrance.
    Usl,
    /// Serial part.
    Amdahl,
}

impl Kind {
    /// All, the one that explains most first.
    pub const ALL: [Self; 3] = [Self::Roofline, Self::Usl, Self::Amdahl];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Roofline => "roofline",
            Self::Usl => "usl",
            Self::Amdahl => "amdahl",
        }
    }
}

/// A model with its parameters. Times are in the unit of what it was fitted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Model {
    /// Threads × one core's rate against the node's bandwidth.
    Roofline {
        /// Time of one thread that nothing holds up.
        core: f64,
        /// Time at the node's bandwidth, with any number of threads.
        node: f64,
        /// How sharp the knee is: 1 adds the two times, above 8 the larger one is all.
        knee: f64,
    },
    /// Universal Scalability Law.
    Usl {
        /// Time of one thread.
        one: f64,
        /// The part that threads queue for (σ).
        contention: f64,
        /// What a pair of threads costs (κ).
        coherence: f64,
    },
    /// Amdahl's law.
    Amdahl {
        /// Time of one thread.
        one: f64,
        /// The part that is one thread's alone.
        serial: f64,
    },
}

impl Model {
    /// A roofline by hand: `bytes` to write, rates in bytes a unit of time.
    pub fn roofline(bytes: f64, core_rate: f64, node_rate: f64, knee: f64) -> Self {
        Self::Roofline {
            core: bytes / core_rate,
            node: bytes / node_rate,
            knee: knee.max(1.0),
        }
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Roofline { .. } => Kind::Roofline,
            Self::Usl { .. } => Kind::Usl,
            Self::Amdahl { .. } => Kind::Amdahl,
        }
    }

    /// The time with so many threads.
    pub fn time(&self, threads: f64) -> f64 {
        let n = threads.max(1.0);
        match *self {
            Self::Roofline { core, node, knee } => {
                let (core, node) = (core / n, node);
                // by the larger one, so that no power overflows
                let large = core.max(node);
                if large <= 0.0 {
                    return 0.0;
                }
                large * ((core / large).powf(knee) + (node / large).powf(knee)).powf(1.0 / knee)
            }
            Self::Usl {
                one,
                contention,
                coherence,
            } => one * (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0)) / n,
            Self::Amdahl { one, serial } => one * (serial + (1.0 - serial) / n),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Roofline { core, node, knee } => write!(
                f,
                "roofline: one core alone {core:.4}, node bandwidth {node:.4}, knee {knee:.2}"
            ),
            Self::Usl {
                one,
                contention,
                coherence,
            } => write!(
                f,
                "usl: one thread {one:.4}, contention {contention:.5}, coherence {coherence:.7}"
            ),
            Self::Amdahl { one, serial } => {
                write!(f, "amdahl: one thread {one:.4}, serial part {serial:.4}")
            }
        }
    }
}

/// How well a model meets times that it was not fitted to.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// Median of the relative errors, without sign.
    pub median: f64,
    /// The largest.
    pub largest: f64,
    /// Each, with its sign, by threads.
    pub each: Vec<(f64, f64)>,
}

impl Errors {
    /// Errors of `time` over points; `None` of none.
    pub fn of(points: &[Point], time: impl Fn(f64) -> f64) -> Option<Self> {
        let each: Vec<(f64, f64)> = points
            .iter()
            .map(|point| (point.threads, time(point.threads) / point.time - 1.0))
            .collect();
        let sizes: Vec<f64> = each.iter().map(|(_, error)| error.abs()).collect();
        Some(Self {
            median: crate::stats::median(&sizes)?,
            largest: sizes.iter().copied().fold(0.0, f64::max),
            each,
        })
    }
}

/// `median error 5.7 %, largest 9.3 % (4 threads)`.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worst = self
            .each
            .iter()
            .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
            .map_or(0.0, |(threads, _)| *threads);
        write!(
            f,
            "median error {:.1} %, largest {:.1} % ({worst} threads)",
            self.median * 100.0,
            self.largest * 100.0
        )
    }
}
