//! A sweep: every page writer with every number of pinned threads, beside the streaming limit.
//!
//! All contestants run once a round, in a new order each round, on the same populated memory; what
//! is compared is compared within a round. The [`Summary`] says what may be said of it.

mod design;
mod limit;
mod run;
mod summary;

pub use design::{Design, FEWEST_ROUNDS, Rounds, doubling};
pub use run::{Cell, Measured, Observer, Progress, SweepError, run};
pub use summary::{Row, Summary};
