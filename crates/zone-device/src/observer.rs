//! Somebody who is told what was initialised, range by range.
//!
//! Linux has a tracepoint on every change of a reference count; a page that is copied whole never
//! changes one, so whoever copies must either fall back to the slow way while somebody looks or be
//! silent. An observer here is told of ranges, after they are written, with everything that a
//! listener to single pages would have learnt. Without one nothing is called and nothing is kept.

use memblock::PfnRange;

use crate::DeviceKind;

/// What was initialised: a run of device pages, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Initialised {
    /// The frames.
    pub pfns: PfnRange,
    /// What they are.
    pub kind: DeviceKind,
    /// The references of a single page or of a compound's head; tails have none.
    pub refcount: u32,
}

/// Is told of initialised ranges.
///
/// Called by whatever thread wrote the range, so several may call at once.
#[doc(alias = "page_ref_set")]
pub trait RangeObserver: Sync {
    /// The struct pages of `range` were written.
    fn initialised(&self, range: Initialised);
}
