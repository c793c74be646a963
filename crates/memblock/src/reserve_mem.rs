//! Memory that the command line reserves by name: `reserve_mem=SIZE:ALIGN:NAME`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use crate::size::take_size;
use crate::{AllocError, AllocRequest, Memblock, PhysRange, ReserveMem};

/// Entries at most.
#[doc(alias = "RESERVE_MEM_MAX_ENTRIES")]
const ENTRIES: usize = 8;
/// Bytes of a name at most.
const NAME: usize = 15;
/// An alignment is at least a cache line, in bytes.
const ALIGN: u64 = 64;

/// A reservation with a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NamedReservation {
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub range: PhysRange,
}

/// The reservations that were asked for by name. `Linux: mm/memblock.c, reserve_mem`, since 6.12.
///
/// ```
/// use memblock::{Behaviour, Memblock, NamedReservations, PhysAddr, PhysRange};
/// let mut memblock = Memblock::new(Behaviour::V7_3);
/// memblock.add(PhysRange::from_size(PhysAddr::ZERO, 1 << 30))?;
/// let mut named = NamedReservations::new();
/// named.reserve(&mut memblock, "4M:4096:trace")?;
/// assert_eq!(named.find("trace").map(|it| it.range.len()), Some(4 << 20));
/// assert_eq!(named.to_string(), "trace\t\t(4.00 MiB)\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NamedReservations {
    entries: Vec<NamedReservation>,
}

/// Why nothing was reserved. The texts are those that the kernel prints since 7.1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReserveMemError {
    /// This kernel does not know the option.
    #[error("reserve_mem: not known to a kernel before 6.12")]
    Absent,
    /// Eight names are taken.
    #[error("reserve_mem: no more room for reserved memory")]
    NoRoom,
    /// It is not `SIZE:ALIGN:NAME` with a size, an alignment that is a power of two, and a name of
    /// 1 to 15 bytes, not all blank.
    #[error("reserve_mem: empty or malformed parameter")]
    Malformed,
    /// The name is taken.
    #[error("reserve_mem: name \"{name}\" was already used")]
    NameUsed {
        /// The name.
        name: String,
    },
    /// There is no such memory.
    #[error("reserve_mem: memblock allocation failed")]
    Allocation(#[source] AllocError),
}

impl NamedReservations {
    /// No reservation.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// What was reserved, in the order of the command line.
    pub fn entries(&self) -> &[NamedReservation] {
        &self.entries
    }

    /// The reservation of that name.
    #[doc(alias = "reserve_mem_find_by_name")]
    pub fn find(&self, name: &str) -> Option<&NamedReservation> {
        self.entries.iter().find(|it| it.name == name)
    }

    /// Does what `reserve_mem=param` asks for.
    ///
    /// # Errors
    /// Every variant of [`ReserveMemError`]; nothing has changed then.
    pub fn reserve(&mut self, memblock: &mut Memblock, param: &str) -> Result<(), ReserveMemError> {
        if memblock.behaviour().reserve_mem == ReserveMem::Absent {
            return Err(ReserveMemError::Absent);
        }
        if self.entries.len() >= ENTRIES {
            return Err(ReserveMemError::NoRoom);
        }
        let (size, align, name) = parse(param).ok_or(ReserveMemError::Malformed)?;
        let name = name.to_string();
        if self.find(&name).is_some() {
            return Err(ReserveMemError::NameUsed { name });
        }
        let range = memblock
            .alloc(AllocRequest::phys(size, align.max(ALIGN)))
            .map_err(|error| match error {
                AllocError::Align { .. } => ReserveMemError::Malformed,
                error => ReserveMemError::Allocation(error),
            })?;
        self.entries.push(NamedReservation { name, range });
        Ok(())
    }
}

fn parse(param: &str) -> Option<(u64, u64, &str)> {
    let (size, rest) = take_size(param)?;
    let (align, rest) = take_size(rest.strip_prefix(':')?)?;
    let name = rest.strip_prefix(':')?;
    let fits = (1..=NAME).contains(&name.len()) && !name.trim_ascii().is_empty();
    (size > 0 && fits).then_some((size, align, name))
}

/// The debugfs file `reserve_mem_param` (since 7.1).
impl fmt::Display for NamedReservations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            writeln!(f, "{}\t\t({})", entry.name, Rounded(entry.range.len()))?;
        }
        Ok(())
    }
}

/// A size in the largest unit that leaves a number from 1 up, with three digits.
struct Rounded(u64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut unit = (self.0.max(1).ilog2() / 10) as usize;
        if unit == 0 {
            return write!(f, "{} B", self.0);
        }
        loop {
            let whole = (self.0 >> (10 * unit)) as u32;
            let decimals: u32 = match whole {
                0..10 => 2,
                10..100 => 1,
                _ => 0,
            };
            let scale = 10u128.pow(decimals);
            let half = 1u128 << (10 * unit - 1);
            let rounded = (u128::from(self.0) * scale + half) >> (10 * unit);
            if rounded >= 1024 * scale && unit < 6 {
                unit += 1;
                continue;
            }
            let number = rounded / scale;
            return match decimals {
                0 => write!(f, "{number} {}", UNITS[unit]),
                1 => write!(f, "{number}.{} {}", rounded % scale, UNITS[unit]),
                _ => write!(f, "{number}.{:02} {}", rounded % scale, UNITS[unit]),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Behaviour, PhysAddr};

    fn machine(behaviour: Behaviour) -> Memblock {
        let mut memblock = Memblock::new(behaviour);
        memblock
            .add(PhysRange::from_size(PhysAddr::ZERO, 1 << 30))
            .unwrap();
        memblock
    }

    #[test]
    fn a_name_is_taken_once_and_eight_are_the_most() {
        let mut memblock = machine(Behaviour::V6_12);
        let mut named = NamedReservations::new();
        for index in 0..8 {
            let param = alloc::format!("1M:1:n{index}");
            named.reserve(&mut memblock, &param).unwrap();
        }
        assert_eq!(
            named.reserve(&mut memblock, "1M:1:n8"),
            Err(ReserveMemError::NoRoom)
        );
        let mut named = NamedReservations::new();
        named.reserve(&mut memblock, "1M:1:a").unwrap();
        let again = named.reserve(&mut memblock, "1M:1:a").unwrap_err();
        assert_eq!(
            again.to_string(),
            "reserve_mem: name \"a\" was already used"
        );
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let mut memblock = machine(Behaviour::V7_3);
        let mut named = NamedReservations::new();
        for param in [
            "",
            "1M",
            "1M:1",
            "1M:1:",
            "1M:1:   ",
            "0:1:name",
            "1M:1:sixteen-letters!",
            ":1:name",
            "1M::name",
            "1M:96:name",
        ] {
            assert_eq!(
                named.reserve(&mut memblock, param),
                Err(ReserveMemError::Malformed),
                "{param}"
            );
        }
        assert!(matches!(
            named.reserve(&mut memblock, "2G:1:name"),
            Err(ReserveMemError::Allocation(AllocError::NoSpace { .. }))
        ));
        assert_eq!(
            named.reserve(&mut machine(Behaviour::V6_1), "1M:1:a"),
            Err(ReserveMemError::Absent)
        );
    }

    #[test]
    fn sizes_are_shown_with_three_digits() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4 << 20, "4.00 MiB"),
            (1536, "1.50 KiB"),
            (40 << 20, "40.0 MiB"),
            (400 << 30, "400 GiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Rounded(size).to_string(), text);
        }
    }
}
