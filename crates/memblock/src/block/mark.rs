//! Setting and clearing flags.

use super::{Memblock, Which};
use crate::{MemblockError, MemblockFlags, PhysRange};

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident: $which:ident, $flag:ident, $set:literal, $alias:literal;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// [`MemblockError::UnknownFlag`] where this kernel has no such flag, and as
            /// [`add`](Memblock::add): regions that cross a bound are cut in two.
            #[doc(alias = $alias)]
            pub fn $name(&mut self, range: PhysRange) -> Result<(), MemblockError> {
                self.set_flag(range, Which::$which, MemblockFlags::$flag, $set)
            }
        )*
    };
}

impl Memblock {
    marks! {
        /// Marks the memory in `range` as hot-pluggable.
        mark_hotplug: Memory, HOTPLUG, true, "memblock_mark_hotplug";
        /// Marks the memory in `range` as not hot-pluggable.
        clear_hotplug: Memory, HOTPLUG, false, "memblock_clear_hotplug";
        /// Takes the memory in `range` out of the direct mapping.
        mark_nomap: Memory, NOMAP, true, "memblock_mark_nomap";
        /// Puts the memory in `range` back into the direct mapping.
        clear_nomap: Memory, NOMAP, false, "memblock_clear_nomap";
        /// Leaves the struct pages of the reservations in `range` to their owner.
        reserved_mark_noinit: Reserved, RSRV_NOINIT, true, "memblock_reserved_mark_noinit";
        /// Marks the reservations in `range` as the kernel's own.
        reserved_mark_kern: Reserved, RSRV_KERN, true, "memblock_reserved_mark_kern";
        /// Marks the memory in `range` as scratch memory of a kexec hand-over.
        mark_kho_scratch: Memory, KHO_SCRATCH, true, "memblock_mark_kho_scratch";
        /// Marks the memory in `range` as no scratch memory.
        clear_kho_scratch: Memory, KHO_SCRATCH, false, "memblock_clear_kho_scratch";
    }

    /// Marks the memory in `range` as mirrored, which makes allocations prefer it. Does nothing
    /// unless `kernelcore=mirror` was given.
    ///
    /// # Errors
    /// As [`mark_hotplug`](Self::mark_hotplug).
    #[doc(alias = "memblock_mark_mirror")]
    pub fn mark_mirror(&mut self, range: PhysRange) -> Result<(), MemblockError> {
        if !self.settings.kernelcore_mirror {
            return Ok(());
        }
        self.set_flag(range, Which::Memory, MemblockFlags::MIRROR, true)?;
        self.settings.has_mirror = true;
        Ok(())
    }

    /// Sets or clears `flag` on every part of `which` that lies in `range`.
    ///
    /// # Errors
    /// As [`mark_hotplug`](Self::mark_hotplug).
    #[doc(alias = "memblock_setclr_flag")]
    pub fn set_flag(
        &mut self,
        range: PhysRange,
        which: Which,
        flag: MemblockFlags,
        set: bool,
    ) -> Result<(), MemblockError> {
        tracing::trace!(op = "memblock_setclr_flag", ?range, %which, %flag, set);
        self.known(flag)?;
        self.prepare_isolate(which, range)?;
        self.list_mut(which, range)?.change(range, |region| {
            let mut flags = region.flags();
            flags.set(flag, set);
            region.with_flags(flags)
        });
        Ok(())
    }
}
