//! First touch: a section is written once, by whoever asks first.
//!
//! # Implementation
//! The section's own state is all that there is: pending → claimed → ready. Who finds it ready goes on
//! with one load. Who finds it pending tries to claim it. Who finds it claimed waits, without holding
//! anything, for whatever comes: ready, or pending again where the writer failed. Nobody needs to be
//! told, so that writers that know nothing of waiters (an engine's workers, a growing zone) may be
//! the ones waited for.

use std::time::Duration;
#[cfg(not(loom))]
use std::time::Instant;

use memmap_core::SectionState;

/// What first touch needs of sections.
pub(super) trait Touchable {
    /// Why a section cannot be written.
    type Error;

    /// A section's state; who sees ready sees its struct pages.
    fn state(&self, section: u64) -> SectionState;

    /// Claims a pending section, writes and publishes it; false where it was not pending. Where it
    /// fails or panics, the section is pending again.
    fn write(&self, section: u64) -> Result<bool, Self::Error>;
}

/// Who wrote a section that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Touched {
    /// Somebody before: nothing was waited for.
    Ready,
    /// We did.
    Wrote,
    /// Somebody else, while we waited.
    Waited,
}

/// Why a section that was asked for is not ready.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TouchFailure<E> {
    /// It is not there.
    Absent,
    /// It could not be written.
    Write(E),
    /// Somebody else has claimed it and did nothing for so long.
    Stuck(Duration),
}

/// Sees to it that `section` is ready; waits at most `patience` for somebody else's claim.
pub(super) fn touch<S: Touchable + ?Sized>(
    sections: &S,
    section: u64,
    patience: Duration,
) -> Result<Touched, TouchFailure<S::Error>> {
    let mut waited = Touched::Ready;
    loop {
        match sections.state(section) {
            SectionState::Ready => return Ok(waited),
            SectionState::Absent => return Err(TouchFailure::Absent),
            SectionState::Pending => match sections.write(section) {
                Ok(true) => return Ok(Touched::Wrote),
                Ok(false) => {}
                Err(error) => return Err(TouchFailure::Write(error)),
            },
            SectionState::Claimed => {
                waited = Touched::Waited;
                wait(sections, section, patience)?;
            }
        }
    }
}

/// Waits until a section is no longer claimed.
#[cfg(not(loom))]
fn wait<S: Touchable + ?Sized>(
    sections: &S,
    section: u64,
    patience: Duration,
) -> Result<(), TouchFailure<S::Error>> {
    let began = Instant::now();
    let backoff = crossbeam::utils::Backoff::new();
    while sections.state(section) == SectionState::Claimed {
        if !backoff.is_completed() {
            backoff.snooze();
            continue;
        }
        let waited = began.elapsed();
        if waited > patience {
            return Err(TouchFailure::Stuck(waited));
        }
        // a section takes some 100 µs; whoever writes it may need this CPU
        std::thread::sleep(Duration::from_micros(20));
    }
    Ok(())
}

/// The same without time.
#[cfg(loom)]
fn wait<S: Touchable + ?Sized>(
    sections: &S,
    section: u64,
    _: Duration,
) -> Result<(), TouchFailure<S::Error>> {
    while sections.state(section) == SectionState::Claimed {
        loom::thread::yield_now();
    }
    Ok(())
}
