//! When memory is initialised.
//!
//! | policy | who writes a section's struct pages, and when |
//! |---|---|
//! | [`Eager`](Policy::Eager) | the boot CPU, all of them, before anything is usable |
//! | [`Deferred`](Policy::Deferred) | the boot CPU the early part, all CPUs the rest at boot's end |
//! | [`OnDemand`](Policy::OnDemand) | the early part as before; more where an allocation finds none, by [`OnDemand`] |
//! | [`Lazy`](Policy::Lazy) | whoever first asks for one of its pages, by [`Lazy`]; a [`Drain`] ahead of them |
//!
//! A policy decides when, never what: every one goes through the same claims, so that any of them may
//! be at work at the same time, and what comes out does not depend on which of them wrote a section.
//!
//! # Differences between policies
//! Deferred, on demand and lazy leave the same struct pages. An eager machine's differ in what Linux
//! treats differently in the deferred part of a node (from `first_deferred_pfn` on), and in nothing
//! else:
//! - *Reserved memory*: in 6.1 and 6.12 a pageblock that begins with a reserved page keeps the type
//!   unmovable; its struct pages are the same.
//! - *Reserved, but no memory* (the firmware's tables behind the last page): named after the node of
//!   the reservation and, outside its zones, one past the last zone, where eager ones keep what
//!   the gap around them got.
//! - *Memory of a driver*: its struct pages are written eagerly only.
//! - *Reserved without initialisation*: likewise.
//!
//! With hand-over, pages inside a free block keep the links of the pieces in which it was freed, which
//! are smaller in the deferred part; and block heads are linked with what else is free.
//!
//! # Implementation
//! Deferral is a property of the modelled kernel, and so of the [`Geometry`]: [`Policy::profile`]
//! switches it off for eager machines.

mod ahead;
mod boot;
mod demand;
mod drain;
mod lazy;
#[cfg(all(test, loom))]
mod model;
mod touch;

pub use boot::{Boot, BootError, BootOutcome, PolicyReport, boot};
pub use demand::OnDemand;
pub use drain::{Drain, DrainError, DrainReport};
pub use lazy::{Lazy, LazyCounts, LazyError, LazyOptions, LazyPages, Touched, Watermark};

use std::fmt;

#[cfg(doc)]
use memmap_core::Geometry;
use memmap_core::{Profile, ProfileError};

/// When memory is initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// All of it by one CPU, before the page allocator is up.
    #[doc(alias = "memmap_init")]
    Eager,
    /// The rest by all CPUs, at boot's end.
    #[doc(alias = "page_alloc_init_late")]
    Deferred,
    /// The rest by whoever finds no free page.
    #[doc(alias = "deferred_grow_zone")]
    OnDemand,
    /// Each section by whoever first asks for one of its pages.
    Lazy,
}

impl Policy {
    /// Every policy, in the order in which tables show them.
    pub const ALL: [Self; 4] = [Self::Eager, Self::Deferred, Self::OnDemand, Self::Lazy];

    /// The name by which users choose it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Deferred => "deferred",
            Self::OnDemand => "on-demand",
            Self::Lazy => "lazy",
        }
    }

    /// The policy of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The kernel as it has to be for this policy: deferring, or not.
    ///
    /// # Errors
    /// [`ProfileError`] for a kernel that cannot defer (one with a flat memory model).
    pub fn profile(self, kernel: &Profile) -> Result<Profile, ProfileError> {
        let mut config = kernel.config().clone();
        config.deferred_init = self != Self::Eager;
        config.build()
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
