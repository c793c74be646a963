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
    #[cfg(not(loom))]
    pub(super) fn new(sections: usize) -> Self {
        // Zeroed memory is had without touching it: a machine of many terabytes is there at once.
        const { assert!(PENDING == 0) };
        let zeroed = alloc::vec![0_u8; sections].into_boxed_slice();
        let states = Box::into_raw(zeroed) as *mut [AtomicU8];
        // SAFETY: 1. an AtomicU8 has the size, alignment and values of a u8. 2. The box was given up
        // just above, and nobody else has it.
        Self(unsafe { Box::from_raw(states) })
    }

    #[cfg(loom)]
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

    /// Makes every claimed section pending; how many were. The exclusive borrow means that their
    /// claims are lost.
    pub(super) fn recover(&mut self) -> u64 {
        let lost = self.0.iter().filter(|state| {
            // Acquire: as in `claim`, for the one who writes the section again
            let lost =
                state.compare_exchange(CLAIMED, PENDING, Ordering::Acquire, Ordering::Relaxed);
            lost.is_ok()
        });
        lost.count() as u64
    }

    pub(super) fn reset(&mut self) {
        for state in &self.0 {
            state.store(PENDING, Ordering::Relaxed);
        }
    }
}
