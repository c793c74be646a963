//! The state of a section's struct pages, one atomic each.
//!
//! `pending → claimed → ready`. Only the thread whose compare-and-swap took a section from
//! pending to claimed may write it; publication makes what it wrote visible to whoever sees
//! ready. Nothing leaves ready but through an exclusive borrow of everything.

use alloc::boxed::Box;
#[cfg(not(loom))]
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering;

#[cfg(loom)]
use loom::sync::atomic::AtomicU8;

/// The state of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectionState {
    /// No memory lies in it.
    Absent,
    /// Nobody has written its struct pages.
    Pending,
    /// Somebody is writing them.
    Claimed,
    /// They are written.
    Ready,
}

const PENDING: u8 = 0;
const CLAIMED: u8 = 1;
const READY: u8 = 2;

/// The states of all present sections, by rank.
#[derive(Debug)]
pub(super) struct States(Box<[AtomicU8]>);

impl States {
    pub(super) fn new(sections: usize) -> Self {
        Self((0..sections).map(|_| AtomicU8::new(PENDING)).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes a section from pending to claimed; false where it was not pending.
    pub(super) fn claim(&self, rank: usize) -> bool {
        // Acquire: partner of the Release in `abandon`, so that a claim after an abandoned one
        // comes after its writes.
        self.0.get(rank).is_some_and(|state| {
            state
                .compare_exchange(PENDING, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// From claimed to ready. The caller holds the claim.
    pub(super) fn publish(&self, rank: usize) {
        // Release: partner of the Acquire in `get`.
        self.0[rank].store(READY, Ordering::Release);
    }

    /// From claimed back to pending. The caller holds the claim.
    pub(super) fn abandon(&self, rank: usize) {
        // Release: partner of the Acquire in `claim`.
        self.0[rank].store(PENDING, Ordering::Release);
    }

    pub(super) fn get(&self, rank: usize) -> SectionState {
        // Acquire: partner of the Release in `publish`; who sees ready sees the struct pages.
        match self.0.get(rank).map(|state| state.load(Ordering::Acquire)) {
            None => SectionState::Absent,
            Some(PENDING) => SectionState::Pending,
            Some(CLAIMED) => SectionState::Claimed,
            Some(_) => SectionState::Ready,
        }
    }

    /// Ready from whatever state; the exclusive borrow means that no claim exists.
    pub(super) fn open(&mut self, rank: usize) {
        self.0[rank].store(READY, Ordering::Relaxed);
    }

    pub(super) fn reset(&mut self) {
        for state in &self.0 {
            state.store(PENDING, Ordering::Relaxed);
        }
    }
}
