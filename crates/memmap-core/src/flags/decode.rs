//! A flags word in words: `node=1 zone=Normal lastcpupid=0x1fffff reserved`.

use alloc::vec::Vec;
use core::fmt;

use memblock::NodeId;

use crate::profile::{ZoneIndex, ZoneKind};

use super::{FlagsLayout, PageFlag};

/// What a flags word says. [`fmt::Display`] prints the fields that the layout has, then the page
/// flags that are set, then bits that mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedFlags {
    /// The section's number, where the word holds it.
    pub section: Option<u64>,
    /// The node, where the word holds it.
    pub node: Option<NodeId>,
    /// The zone's number.
    pub zone: ZoneIndex,
    /// What zone that is; `None` for a number that no zone has.
    pub zone_kind: Option<ZoneKind>,
    /// CPU and process that touched the page last, where the word holds them.
    pub last_cpupid: Option<u64>,
    /// The memory tag, where the word holds it.
    pub kasan_tag: Option<u64>,
    /// The generation, where the word holds it.
    pub lru_gen: Option<u64>,
    /// The reference counter, where the word holds it.
    pub lru_refs: Option<u64>,
    /// The page flags that are set, by number.
    pub flags: Vec<PageFlag>,
    /// Set bits that are in no field and no flag.
    pub unknown: u64,
}

impl FlagsLayout {
    /// Takes a flags word apart.
    pub fn decode(&self, word: u64) -> DecodedFlags {
        let field = |field: super::Field| (field.width > 0).then(|| field.get(word));
        let zone = ZoneIndex(self.zone().get(word) as u8);
        let flags: Vec<_> = self
            .numbers()
            .iter()
            .enumerate()
            .filter(|(bit, _)| word >> bit & 1 == 1)
            .map(|(_, flag)| flag)
            .collect();
        let known = [
            self.section(),
            self.node(),
            self.zone(),
            self.last_cpupid(),
            self.kasan_tag(),
            self.lru_gen(),
            self.lru_refs(),
        ]
        .into_iter()
        .fold((1 << self.numbers().count()) - 1, |known, field| {
            known | field.put(u64::MAX)
        });
        DecodedFlags {
            section: field(self.section()),
            node: field(self.node()).map(|node| NodeId::new(node as u16)),
            zone,
            zone_kind: self.zones().kind(zone),
            last_cpupid: field(self.last_cpupid()),
            kasan_tag: field(self.kasan_tag()),
            lru_gen: field(self.lru_gen()),
            lru_refs: field(self.lru_refs()),
            flags,
            unknown: word & !known,
        }
    }
}

impl fmt::Display for DecodedFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(section) = self.section {
            write!(f, "section={section} ")?;
        }
        if let Some(node) = self.node {
            write!(f, "node={node} ")?;
        }
        match self.zone_kind {
            Some(kind) => write!(f, "zone={kind}")?,
            None => write!(f, "zone={}(none)", self.zone)?,
        }
        if let Some(last) = self.last_cpupid {
            write!(f, " lastcpupid={last:#x}")?;
        }
        let rest = [
            ("kasantag", self.kasan_tag),
            ("gen", self.lru_gen),
            ("refs", self.lru_refs),
        ];
        for (name, value) in rest {
            if let Some(value) = value.filter(|value| *value != 0) {
                write!(f, " {name}={value:#x}")?;
            }
        }
        for flag in &self.flags {
            write!(f, " {}", flag.name())?;
        }
        if self.unknown != 0 {
            write!(f, " unknown={:#x}", self.unknown)?;
        }
        Ok(())
    }
}
