//! What tells the runs of a study apart.

use std::fmt;

use super::{Role, Settings};

/// A run of a study: equal on every host and in every session, unlike what was measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The round, from 0.
    pub round: u64,
    /// The place in the round, from 0.
    pub place: u64,
    /// What the run is there for.
    pub role: Role,
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// How it is initialised.
    pub settings: Settings,
}

impl Role {
    /// Its name in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Limit => "limit",
            Self::Reference => "reference",
            Self::Matrix => "matrix",
            Self::MatrixLimit => "matrix-limit",
            Self::Boot => "boot",
            Self::BootReference => "boot-reference",
        }
    }

    /// Whether the run is a whole boot, on memory of its own.
    pub const fn is_boot(self) -> bool {
        matches!(self, Self::Boot | Self::BootReference)
    }
}

/// `4 threads on node 0, bind, deque, eager, stream, 4K`.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads {
            1 => f.write_str("1 thread")?,
            threads => write!(f, "{threads} threads")?,
        }
        for (at, node) in self.nodes.iter().enumerate() {
            match at {
                0 => write!(f, " on node {node}")?,
                _ => write!(f, "+{node}")?,
            }
        }
        write!(
            f,
            ", {}, {}, {}, {}, {} pages",
            self.placement, self.scheduler, self.policy, self.writer, self.pages
        )
    }
}
