//! A replay beside what debugfs shows after boot.
//!
//! Where the arrays are kept after boot, debugfs shows what is left of the reservations. Two
//! kinds of difference remain, and both are named: reservations whose lines the log has lost, and
//! reservations that the kernel gave back without a line.

use alloc::vec::Vec;

use super::{GivenBack, Replay};
use crate::text::DebugfsTable;
use crate::{Memblock, MemblockError, NodeMark, PhysRange, RegionList};

/// How the state after a log's later frees differs from a debugfs file of reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DebugfsDifference {
    /// Reserved there, and not after the replay: their lines were lost.
    pub unseen: Vec<PhysRange>,
    /// Reserved after the replay, and not there: given back without a line of memblock.
    pub freed_silently: Vec<SilentFree>,
}

/// A reservation that the kernel gave back without a line of memblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentFree {
    /// What is no longer reserved.
    pub range: PhysRange,
    /// The `Freeing … memory` line of just as many whole pages, which tells what it was.
    pub line: Option<GivenBack>,
}

impl DebugfsDifference {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.unseen.is_empty() && self.freed_silently.is_empty()
    }
}

impl Replay {
    /// Compares the state after the later frees with the debugfs file `reserved`.
    ///
    /// # Errors
    /// As [`Memblock::hand_over`].
    pub fn compare_reserved(
        &self,
        reserved: &DebugfsTable,
        page_shift: u32,
    ) -> Result<DebugfsDifference, MemblockError> {
        let after = self.after_later_frees(page_shift)?;
        let there = table_list(reserved, self.behaviour)?;
        let mut lines = self.given_back.clone();
        let freed_silently = difference(after.reserved(), there.reserved())
            .into_iter()
            .map(|range| {
                let kib = (range.pfns_inner(page_shift).len() << page_shift) >> 10;
                let line = lines
                    .iter()
                    .position(|line| line.kib == kib)
                    .map(|at| lines.remove(at));
                SilentFree { range, line }
            })
            .collect();
        Ok(DebugfsDifference {
            unseen: difference(there.reserved(), after.reserved()),
            freed_silently,
        })
    }

    /// Reserves at hand-over what the debugfs file `reserved` shows and the log does not, and
    /// gives the list of it. For logs whose last lines before hand-over are lost.
    ///
    /// What was reserved and given back again, both without a line, stays unknown.
    ///
    /// # Errors
    /// As [`Memblock::hand_over`].
    pub fn complete_from_debugfs(
        &mut self,
        reserved: &DebugfsTable,
        page_shift: u32,
    ) -> Result<Vec<PhysRange>, MemblockError> {
        let unseen = self.compare_reserved(reserved, page_shift)?.unseen;
        for row in &reserved.rows {
            for &range in &unseen {
                if let Some(range) = range.intersection(row.range()) {
                    let node = row
                        .node
                        .map_or(self.behaviour.plain_reservation_node, NodeMark::node);
                    self.at_hand_over.reserve_with(range, node, row.flags)?;
                }
            }
        }
        Ok(unseen)
    }
}

/// The rows of a table as reservations.
fn table_list(
    table: &DebugfsTable,
    behaviour: crate::Behaviour,
) -> Result<Memblock, MemblockError> {
    let mut there = Memblock::new(behaviour);
    for row in &table.rows {
        there.reserve(row.range())?;
    }
    Ok(there)
}

/// What `from` covers and `less` does not, joined where it touches.
fn difference(from: &RegionList, less: &RegionList) -> Vec<PhysRange> {
    let mut left: Vec<PhysRange> = Vec::new();
    for range in from.iter().flat_map(|region| less.gaps_in(region.range())) {
        match left.last_mut() {
            Some(last) if last.end() == range.start() => {
                *last = PhysRange::new(last.start(), range.end());
            }
            _ => left.push(range),
        }
    }
    left
}
