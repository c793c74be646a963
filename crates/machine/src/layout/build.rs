//! From a layout to the values that build a memory map.
//!
//! [`MachineLayout::memblock`] replays what was reserved and freed up to the moment that memory
//! was handed over; [`MachineLayout::profile`] picks the nearest preset and says what is guessed.

use memblock::{Behaviour, Memblock, MemblockError, MemblockFlags, NodeId, NodeMark, Which};
use memmap_core::{Arch, BootOptions, KernelVersion, Profile, ZoneKind, ZoneSet};

use super::{MachineLayout, MemoryRange};
use crate::bootlog::memblock_lines::{Call, Operation};
use crate::error::LayoutError;
use crate::figures::FigureKind;
use crate::location::Location;

/// A profile and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileChoice {
    /// The profile.
    pub profile: Profile,
    /// The release that it was made for, and whether the input names it.
    pub version: (KernelVersion, bool),
    /// The architecture that it was made for, and whether the input names it.
    pub arch: (Arch, bool),
    /// Whether the zones are those that the log names; otherwise the preset's.
    pub zones_from_log: bool,
    /// Whether the number of CPUs is that of the input; otherwise the preset's.
    pub nr_cpus_from_log: bool,
    /// The highest node number that the input names.
    pub highest_node: u16,
    /// Bits of a node number in the preset.
    preset_nodes_shift: u32,
}

impl ProfileChoice {
    /// The release of the presets that is nearest: the last one that is not later, or the first.
    pub fn nearest(&self) -> KernelVersion {
        let known = [
            KernelVersion::V6_1,
            KernelVersion::V6_12,
            KernelVersion::V6_18,
            KernelVersion::V7_3,
        ];
        let version = (self.version.0.major, self.version.0.minor);
        let not_later = known
            .iter()
            .rfind(|known| (known.major, known.minor) <= version);
        *not_later.unwrap_or(&KernelVersion::V6_1)
    }

    /// Why node numbers have as many bits as they have.
    pub fn nodes_shift_because(&self) -> String {
        let (highest, shift) = (self.highest_node, self.profile.nodes_shift);
        if shift > self.preset_nodes_shift {
            return format!(
                "node {highest} is named; the usual {} would end at node {}",
                self.preset_nodes_shift,
                (1u32 << self.preset_nodes_shift) - 1
            );
        }
        let least = bits(highest);
        if least == shift {
            return format!("the usual one; node {highest} is named, so no smaller one fits");
        }
        format!("the usual one; the highest node is {highest}, so anything from {least} on fits")
    }
}

/// Bits that it takes to number nodes up to `highest`.
const fn bits(highest: u16) -> u32 {
    u16::BITS - highest.leading_zeros()
}

impl MachineLayout {
    /// memblock as it was when memory was handed to the buddy allocator.
    ///
    /// Memory has the layout's nodes and flags. Reservations are those of the dump with every
    /// later call replayed, where there is a dump; else what is known of them. The nodes of the
    /// firmware's ranges are set on reservations too, as far as the input does not name them.
    ///
    /// # Errors
    /// [`LayoutError::Memblock`] where memblock refuses a range or a flag.
    pub fn memblock(&self) -> Result<Memblock, LayoutError> {
        self.memblock_of_pages(self.page_size)
    }

    /// As [`MachineLayout::memblock`], for pages of `page_size` bytes.
    pub(crate) fn memblock_of_pages(&self, page_size: u64) -> Result<Memblock, LayoutError> {
        let (major, minor) = self.release.as_ref().map_or((6, 12), |r| r.number());
        let mut behaviour = Behaviour::for_version(major.into(), minor.into());
        // A dump may show flags that the nearest preset does not know yet, as back-ports do.
        behaviour.known_flags = MemblockFlags::all();
        let mut memblock = Memblock::new(behaviour);
        memblock.settings_mut().page_shift = page_size.trailing_zeros().clamp(1, 30);
        let refused =
            |memory: &MemoryRange, source| self.refused(memory.line, memory.range, source);
        for memory in &self.memory {
            let flags = MemblockFlags::from_bits_retain(memory.flags);
            let node = memory.node.map_or(NodeMark::UNSET, NodeMark::node);
            memblock
                .add_node(memory.range, node, flags)
                .map_err(|source| refused(memory, source))?;
        }
        let plain = behaviour.plain_reservation_node;
        for reserved in &self.reserved {
            let flags = MemblockFlags::from_bits_retain(reserved.flags);
            let node = reserved.node.map_or(plain, NodeMark::node);
            memblock
                .reserve_with(reserved.range, node, flags)
                .map_err(|source| refused(reserved, source))?;
        }
        // What was reserved counts, not what was written: a reservation inside of others leaves nothing
        // of its node.
        if memblock
            .reserved()
            .iter()
            .all(|region| region.node().is_none())
        {
            for claim in &self.node_ranges {
                memblock
                    .set_node(claim.range, Which::Reserved, claim.node)
                    .map_err(|source| self.refused(claim.line, claim.range, source))?;
            }
        }
        for call in &self.calls {
            replay(&mut memblock, call, plain)
                .map_err(|source| self.refused(call.line, call.range, source))?;
        }
        // What is reserved already keeps its node and flags, so only what is new is added.
        for kept in &self.kept {
            let flags = MemblockFlags::from_bits_retain(kept.flags);
            memblock
                .reserve_with(kept.range, plain, flags)
                .map_err(|source| refused(kept, source))?;
        }
        Ok(memblock)
    }

    fn refused(&self, line: u64, range: memblock::PhysRange, source: MemblockError) -> LayoutError {
        LayoutError::Memblock {
            file: self.file.clone(),
            at: Location::new(line, &range.to_string()),
            source,
        }
    }

    /// The options that shape zones and nodes, as far as the input tells.
    ///
    /// A value on the command line that cannot be read is left out, as a kernel does.
    pub fn boot_options(&self) -> BootOptions {
        let line = self.command_line.as_deref().unwrap_or("");
        let mut options = BootOptions::from_command_line(line).unwrap_or_default();
        options.memoryless.clone_from(&self.memoryless);
        options.offline.clone_from(&self.offline);
        options
    }

    /// The nearest profile: see [`MachineLayout::profile_choice`].
    pub fn profile(&self) -> Profile {
        self.profile_choice().profile
    }

    /// The nearest profile, and what of it the input did not say.
    ///
    /// Release, architecture, page size and number of CPUs are the input's where it names them.
    /// Which zones exist is a matter of configuration that nothing but the log's own list of
    /// zones shows; their limits are not taken from it.
    pub fn profile_choice(&self) -> ProfileChoice {
        self.profile_choice_of(self.page_size)
    }

    /// As [`MachineLayout::profile_choice`], for pages of `page_size` bytes.
    pub(crate) fn profile_choice_of(&self, page_size: u64) -> ProfileChoice {
        let version = self.release.as_ref().map(|release| release.version());
        let arch = self.architecture.and_then(|arch| arch.modelled());
        let nearest = version.unwrap_or(KernelVersion::V6_12);
        let chosen = arch.unwrap_or(Arch::Amd64);
        let preset = preset(chosen, nearest, page_size);
        let preset_nodes_shift = preset.nodes_shift;
        let mut config = preset.config().clone();
        let zones = self.zones_named();
        if let Some(zones) = zones {
            config.zones = zones;
        }
        let nr_cpus = self
            .nr_cpus
            .and_then(|cpus| u32::try_from(cpus).ok())
            .filter(|&cpus| cpus > 0);
        if let Some(cpus) = nr_cpus {
            config.nr_cpus = cpus;
        }
        let highest_node = self.highest_node();
        config.nodes_shift = config.nodes_shift.max(bits(highest_node));
        // What a log says may not fit together; then the preset as it is.
        let built = config.build();
        let fits = built.is_ok();
        ProfileChoice {
            profile: built.unwrap_or(preset),
            version: (nearest, version.is_some()),
            arch: (chosen, arch.is_some()),
            zones_from_log: fits && zones.is_some(),
            nr_cpus_from_log: fits && nr_cpus.is_some(),
            highest_node,
            preset_nodes_shift,
        }
    }

    /// The highest node number that is named: with memory, without, or only possible.
    fn highest_node(&self) -> u16 {
        let memory = self.memory.iter().filter_map(|memory| memory.node);
        let claims = self.node_ranges.iter().map(|claim| claim.node);
        let bare = self.memoryless.iter().chain(&self.offline).copied();
        let all = memory.chain(claims).chain(bare).map(NodeId::get);
        all.max().unwrap_or(0)
    }

    /// The zones that the log lists, Movable included, or nothing where the list is not whole.
    fn zones_named(&self) -> Option<ZoneSet> {
        let mut kinds: Vec<ZoneKind> = self
            .figures
            .iter()
            .filter_map(|figure| match figure.kind {
                FigureKind::ZoneRange { zone, .. } => Some(zone),
                _ => None,
            })
            .collect();
        kinds.sort();
        kinds.dedup();
        // Every kernel has Normal; 32-bit ones with HighMem have no profile.
        let whole = kinds.contains(&ZoneKind::Normal) && !kinds.contains(&ZoneKind::HighMem);
        whole.then(|| ZoneSet::new(&kinds))
    }
}

fn preset(arch: Arch, version: KernelVersion, page_size: u64) -> Profile {
    match (arch, page_size) {
        (Arch::Arm64, 0x4000) => Profile::arm64_16k(version),
        (Arch::Arm64, 0x1_0000) => Profile::arm64_64k(version),
        (Arch::Arm64, _) => Profile::arm64_4k(version),
        (Arch::Riscv64, _) => Profile::riscv64(version),
        (Arch::Ppc64, 0x1000) => Profile::ppc64_4k(version),
        (Arch::Ppc64, _) => Profile::ppc64_64k(version),
        (Arch::S390x, _) => Profile::s390x(version),
        _ => Profile::amd64(version),
    }
}

fn replay(memblock: &mut Memblock, call: &Call, plain: NodeMark) -> Result<(), MemblockError> {
    let flags = MemblockFlags::from_bits_retain(call.flags);
    match call.operation {
        Operation::Add => {
            let node = call.node.map_or(NodeMark::UNSET, NodeMark::node);
            memblock.add_node(call.range, node, flags)
        }
        Operation::Remove => memblock.remove(call.range),
        Operation::Reserve => {
            let node = call.node.map_or(plain, NodeMark::node);
            memblock.reserve_with(call.range, node, flags)
        }
        Operation::Free => memblock.free(call.range),
    }
}
