//! The threads that do the work, each on a CPU of its own.
//!
//! [`choose`] turns wishes (how many, on which nodes, spread or packed) into [`Seat`]s, one a
//! worker. A [`Crew`] is the threads on those seats: spawned and pinned before anything is timed, and
//! kept for the next run.

mod choose;
mod crew;
mod pin;
mod start;

pub use choose::{ChooseError, MOST_ON_A_CPU, Pinning, Seat, Spread, WorkerChoice, choose};
pub(crate) use crew::Traced;
pub use crew::{Crew, CrewError, PinFailure};
pub use start::Start;
