//! A kernel's profile: everything in which one kernel's memory map differs from another's.
//!
//! A [`Profile`] is a [`KernelConfig`] that was found free of contradictions, together with the
//! flags layout that follows from it. It is run-time data; the presets are starting points, and
//! anyone can make their own.

mod arch;
mod behaviours;
mod config;
mod error;
mod presets;
mod zone;

pub use arch::{Arch, KernelVersion, ParseKernelVersionError};
pub use behaviours::{
    Arm64DmaLimit, Behaviours, DeferOrder, DeferredJobs, DeferredThreads, DeviceMemmapCount,
    DevicePageblocks, EarlySectionDedup, FallbackRule, FirstTails, FlagNumbers, FlatmemTail,
    GrowEnd, HoleTest, HotAdded, LifoBatch, ManagedEstimate, MovableStart, NodeSpanned,
    PageTypeWord, ReservedNode, TailTwo,
};
pub use config::{ByteOrder, FlagOptions, KasanTags, KernelConfig, MemoryModel};
pub use error::ProfileError;
pub use zone::{ZoneIndex, ZoneKind, ZoneSet};

use core::fmt;
use core::ops::Deref;

use crate::flags::FlagsLayout;

/// A configuration that was checked. Its fields are read through [`KernelConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    config: KernelConfig,
    flags: FlagsLayout,
}

impl Profile {
    fn new(config: KernelConfig) -> Result<Self, ProfileError> {
        error::check(&config)?;
        let flags = FlagsLayout::of(&config)?;
        error::check_struct_page(&config, &flags)?;
        Ok(Self { config, flags })
    }

    /// The configuration, to be cloned and changed.
    pub const fn config(&self) -> &KernelConfig {
        &self.config
    }

    /// Where the fields of the flags word are.
    pub const fn flags_layout(&self) -> &FlagsLayout {
        &self.flags
    }
}

impl Deref for Profile {
    type Target = KernelConfig;

    fn deref(&self) -> &KernelConfig {
        &self.config
    }
}

/// `amd64 6.12, 4 KiB pages`.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.config.page_size() >> 10;
        write!(
            f,
            "{} {}, {kib} KiB pages",
            self.config.arch, self.config.version
        )
    }
}
