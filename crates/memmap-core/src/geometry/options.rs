//! What the command line and the firmware say beside the memory itself.

use alloc::string::ToString;
use alloc::vec::Vec;

use memblock::{NodeId, Pfn, PhysAddr};

use super::OptionError;

/// How much memory the kernel keeps for itself, or leaves movable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoreSize {
    /// Bytes.
    Bytes(u64),
    /// A percentage of all memory.
    Percent(u64),
    /// All mirrored memory (`kernelcore` only).
    Mirror,
}

/// Options that shape zones and nodes. The default is a kernel without any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BootOptions {
    /// `kernelcore=`.
    pub kernelcore: Option<CoreSize>,
    /// `movablecore=`; [`CoreSize::Mirror`] means nothing here and is ignored.
    pub movablecore: Option<CoreSize>,
    /// `movable_node`: hot-pluggable memory becomes movable.
    pub movable_node: bool,
    /// The kernel runs to save the memory of a crashed one: `kernelcore=mirror` is ignored from
    /// 6.12 on.
    pub kdump: bool,
    /// Nodes that are online without memory.
    pub memoryless: Vec<NodeId>,
    /// Nodes that may come, but are not online.
    pub offline: Vec<NodeId>,
    /// The highest address that every device reaches, by device tree or ACPI (arm64).
    #[doc(alias = "zone_dma_limit")]
    #[doc(alias = "zone_dma_bits")]
    pub dma_limit: Option<PhysAddr>,
    /// One past the last address of the lowest zone, where a platform sets it in a way of its
    /// own; it beats [`BootOptions::dma_limit`] and what the architecture says.
    pub lowest_zone_end: Option<PhysAddr>,
    /// One past the last frame that the kernel maps; `None`: the end of memory.
    pub max_low_pfn: Option<Pfn>,
    /// `page_ext` must be there early: nothing is deferred.
    pub early_page_ext: bool,
    /// Pages of the first zone that were in use when the zones were sized (6.1 on amd64);
    /// `None`: those that are not free at hand-over. Only printed figures depend on it.
    pub dma_reserve: Option<u64>,
}

impl BootOptions {
    /// Takes `kernelcore=`, `movablecore=` and `movable_node` from a command line; what else is
    /// there is left to others. The last of several wins.
    ///
    /// # Errors
    /// [`OptionError`] for a value that is neither a size nor a percentage.
    pub fn from_command_line(line: &str) -> Result<Self, OptionError> {
        let mut options = Self::default();
        for word in line.split_ascii_whitespace() {
            if let Some(value) = word.strip_prefix("kernelcore=") {
                options.kernelcore = Some(core_size("kernelcore", value, true)?);
            } else if let Some(value) = word.strip_prefix("movablecore=") {
                options.movablecore = Some(core_size("movablecore", value, false)?);
            } else if word == "movable_node" {
                options.movable_node = true;
            }
        }
        Ok(options)
    }
}

fn core_size(option: &'static str, value: &str, mirror: bool) -> Result<CoreSize, OptionError> {
    if mirror && value == "mirror" {
        return Ok(CoreSize::Mirror);
    }
    let size = match value.strip_suffix('%') {
        Some(number) => number.parse().ok().map(CoreSize::Percent),
        None => memparse(value).map(CoreSize::Bytes),
    };
    size.ok_or_else(|| OptionError {
        option,
        value: value.to_string(),
        more: if mirror { ", or \"mirror\"" } else { "" },
    })
}

/// A number, decimal or with `0x`, and a suffix K, M, G, T, P or E.
fn memparse(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, last)) => match "kmgtpe".find(last.to_ascii_lowercase()) {
            // `e` is a digit of a hexadecimal number
            Some(5) if text.starts_with("0x") => (text, 0),
            Some(power) => (&text[..at], 10 * (power as u32 + 1)),
            None => (text, 0),
        },
        None => return None,
    };
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_percentages_are_read_and_nonsense_is_refused() {
        let read = |line| BootOptions::from_command_line(line);
        let options = read("quiet kernelcore=4G movablecore=30% movable_node").unwrap();
        assert_eq!(options.kernelcore, Some(CoreSize::Bytes(4 << 30)));
        assert_eq!(options.movablecore, Some(CoreSize::Percent(30)));
        assert!(options.movable_node);
        assert_eq!(
            read("kernelcore=1G kernelcore=mirror").unwrap().kernelcore,
            Some(CoreSize::Mirror)
        );
        assert_eq!(
            read("movablecore=0x10000").unwrap().movablecore,
            Some(CoreSize::Bytes(0x10000))
        );
        for bad in [
            "kernelcore=",
            "kernelcore=x",
            "movablecore=mirror",
            "kernelcore=%",
            "kernelcore=99999999E",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
