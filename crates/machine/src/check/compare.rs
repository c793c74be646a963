//! One figure of the kernel's against ours.

use std::collections::BTreeSet;

use memblock::NodeId;
use memmap_core::ZoneKind;

use super::expect::{DmaReserve, Expected};
use super::words::{Part, words};
use super::{Reason, Verdict};
use crate::figures::{Figure, FigureKind};
use crate::layout::MachineLayout;
use crate::release::Architecture;

/// Frames of 4 KiB below 4 GiB; only x86 prints the line that this is for.
const FOUR_GIB_PFN: u64 = 1 << 20;

/// Longest list that is aligned exactly; longer ones are compared place by place.
const ALIGNED: usize = 1500;

/// What a figure is about: figures of one kind with equal keys speak of the same thing.
pub(super) type Key = (&'static str, Option<NodeId>, Option<ZoneKind>);

pub(super) fn key(kind: &FigureKind) -> Key {
    let (node, zone) = match *kind {
        FigureKind::ZoneRange { zone, .. } => (None, Some(zone)),
        FigureKind::MovableStart { node, .. }
        | FigureKind::Initmem { node, .. }
        | FigureKind::Fallback { node, .. }
        | FigureKind::TotalPages { node, .. } => (Some(node), None),
        FigureKind::MemmapPages { node, zone, .. }
        | FigureKind::ReservedPages { node, zone, .. }
        | FigureKind::ZonePages { node, zone, .. } => (node, Some(zone)),
        _ => (None, None),
    };
    (kind.name(), node, zone)
}

/// What became of one number of one line, before anything is said about it in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Which of the printed figures; `None` where the kernel printed none and we would.
    pub(super) figure: Option<usize>,
    /// Which number of the line.
    pub(super) part: Part,
    /// What became of it.
    pub(super) verdict: Verdict,
}

/// The numbers of `kind` that are judged on their own.
fn parts(kind: &FigureKind) -> &'static [Part] {
    match kind {
        FigureKind::Zonelists { .. } => &[Part::Zonelists, Part::ZonelistTotal],
        FigureKind::ZonePages { .. } => &[Part::ZonePages, Part::Batch],
        FigureKind::Memory { cma: Some(_), .. } => {
            &[Part::MemoryTotal, Part::MemoryReserved, Part::MemoryCma]
        }
        FigureKind::Memory { .. } => &[Part::MemoryTotal, Part::MemoryReserved],
        FigureKind::DeviceInit { .. } => &[Part::DevicePages],
        // A time is no figure of a memory map.
        FigureKind::DeferredInit { .. } => &[],
        _ => &[Part::Whole],
    }
}

/// Every printed figure with its verdict, then what only we would print.
pub(super) fn compare(layout: &MachineLayout, ours: &Expected) -> Vec<Outcome> {
    let mut out = Vec::with_capacity(layout.figures.len() + 4);
    let early = aligned(layout, ours, "early node range");
    let holes = aligned(layout, ours, "unavailable pages");
    let (mut next_early, mut next_hole) = (0, 0);
    let last_pfns = last_pfns(layout, ours);
    for (index, figure) in layout.figures.iter().enumerate() {
        let in_list = match figure.kind {
            FigureKind::EarlyRange { .. } => {
                next_early += 1;
                Some(early.found[next_early - 1])
            }
            FigureKind::Unavailable { .. } => {
                next_hole += 1;
                Some(holes.found[next_hole - 1])
            }
            FigureKind::LastPfn { pfn } => Some(last_pfns.contains(&pfn)),
            _ => None,
        };
        out.extend(parts(&figure.kind).iter().map(|&part| Outcome {
            figure: Some(index),
            part,
            verdict: verdict(layout, ours, figure, part, in_list),
        }));
    }
    let lists = [
        (
            early,
            layout.figures.early_ranges_at.is_some() && !layout.provenance.uses_early_ranges(),
        ),
        (holes, prints_holes(layout)),
    ];
    for (list, printed) in lists {
        if printed {
            out.extend(list.ours_only.iter().map(|kind| missing(layout, kind)));
        }
    }
    if layout.figures.movable_at.is_some() {
        let printed: BTreeSet<NodeId> = layout
            .figures
            .iter()
            .filter_map(|figure| match figure.kind {
                FigureKind::MovableStart { node, .. } => Some(node),
                _ => None,
            })
            .collect();
        let only_ours = ours.figures.iter().filter(|kind| match kind {
            FigureKind::MovableStart { node, .. } => !printed.contains(node),
            _ => false,
        });
        out.extend(only_ours.map(|kind| missing(layout, kind)));
    }
    out
}

/// What `last_pfn` lines may say.
///
/// One is printed for all memory, more where firmware's map is mended on the way. Where memory
/// lies above 4 GiB, there are others of what lies below, before and behind it: a log that names
/// all memory nowhere is not of ours, whatever it says of the rest.
fn last_pfns(layout: &MachineLayout, ours: &Expected) -> Vec<u64> {
    let (last, below_4g) = ours.last_pfns;
    let named = layout
        .figures
        .iter()
        .any(|figure| figure.kind == FigureKind::LastPfn { pfn: last });
    match named && last > FOUR_GIB_PFN {
        true => vec![last, below_4g],
        false => vec![last],
    }
}

/// A line that we would print and the kernel did not.
fn missing(layout: &MachineLayout, kind: &FigureKind) -> Outcome {
    let verdict = if layout.architecture.is_none() {
        Verdict::CannotKnow(Reason::NoArchitecture)
    } else if layout.provenance.unreadable > 0 {
        Verdict::CannotKnow(Reason::BrokenInput)
    } else {
        Verdict::Differs {
            ours: Some(words(kind, Part::Whole)),
        }
    };
    Outcome {
        figure: None,
        part: Part::Missing(kind.name()),
        verdict,
    }
}

/// Whether a log of this version that goes on to later lines must name holes.
fn prints_holes(layout: &MachineLayout) -> bool {
    // 5.11 and 5.12 call them so first; excerpts that stop before are no evidence.
    let new = layout
        .release
        .as_ref()
        .is_some_and(|release| release.number() >= (5, 14));
    let later = layout
        .figures
        .iter()
        .any(|figure| matches!(figure.kind, FigureKind::Zonelists { .. }));
    new && later
}

/// Why `part` of `kind` is not compared, if so.
fn not_compared(
    layout: &MachineLayout,
    ours: &Expected,
    kind: &FigureKind,
    part: Part,
) -> Option<Reason> {
    let before = |major, minor| {
        layout
            .release
            .as_ref()
            .is_some_and(|release| release.number() < (major, minor))
    };
    if layout.architecture.is_none() {
        return Some(Reason::NoArchitecture);
    }
    match (kind, part) {
        (FigureKind::ZeroedPages { .. }, _) if layout.architecture == Some(Architecture::Arm64) => {
            Some(Reason::NoMap)
        }
        (FigureKind::ReservedUnavailable { .. }, _) => Some(Reason::Reservations),
        (FigureKind::Initmem { .. }, _) if before(3, 17) => Some(Reason::OtherMeaning),
        (_, Part::MemoryTotal) if before(3, 11) => Some(Reason::OtherMeaning),
        (_, Part::MemoryReserved) => match &ours.reserved_kib {
            Err(reason) => Some(*reason),
            Ok(_) => None,
        },
        _ => None,
    }
}

fn verdict(
    layout: &MachineLayout,
    ours: &Expected,
    figure: &Figure,
    part: Part,
    in_list: Option<bool>,
) -> Verdict {
    let kind = &figure.kind;
    if is_input(layout, ours, figure) {
        return Verdict::Input;
    }
    if let Some(reason) = not_compared(layout, ours, kind, part) {
        return Verdict::CannotKnow(reason);
    }
    let own = match part {
        Part::MemoryReserved | Part::MemoryCma => None,
        _ => ours.find(key(kind)),
    };
    let equal = match (kind, part) {
        (FigureKind::Memory { reserved, .. }, Part::MemoryReserved) => {
            ours.reserved_kib.as_ref().is_ok_and(|own| own == reserved)
        }
        (FigureKind::Memory { cma, .. }, Part::MemoryCma) => *cma == Some(layout.cma_kib()),
        (FigureKind::DeviceInit { pages, .. }, _) => ours.device_pages.contains(pages),
        _ => in_list.unwrap_or_else(|| own.is_some_and(|own| same(own, kind, part))),
    };
    if equal {
        return Verdict::Equal;
    }
    if let Some(reason) = unknown_where_unequal(layout, ours, kind, own, part) {
        return Verdict::CannotKnow(reason);
    }
    let ours = match (kind, part) {
        (_, Part::MemoryReserved) => {
            let own = ours.reserved_kib.as_ref().ok();
            own.map(|own| format!("{own}K reserved"))
        }
        (_, Part::MemoryCma) => Some(format!("{}K cma-reserved", layout.cma_kib())),
        (FigureKind::LastPfn { .. }, _) => {
            let own = last_pfns(layout, ours);
            let own: Vec<_> = own.iter().map(|pfn| format!("{pfn:#x}")).collect();
            Some(own.join(" or "))
        }
        _ => own
            .filter(|_| in_list.is_none())
            .map(|own| words(own, part)),
    };
    Verdict::Differs { ours }
}

/// Whether `figure` was read to build the map.
fn is_input(layout: &MachineLayout, ours: &Expected, figure: &Figure) -> bool {
    let lowest = match figure.kind {
        FigureKind::OfflineNode { .. } => true,
        FigureKind::ZoneRange { zone, .. } => ours.zone_limit_taken == Some(zone),
        _ => false,
    };
    lowest || layout.is_input(figure)
}

/// Why a figure that is not ours may be right all the same.
fn unknown_where_unequal(
    layout: &MachineLayout,
    ours: &Expected,
    kind: &FigureKind,
    own: Option<&FigureKind>,
    part: Part,
) -> Option<Reason> {
    // What is lost of the input is missing here too.
    if layout.provenance.unreadable > 0 {
        return Some(Reason::BrokenInput);
    }
    let between = |from, to| {
        let release = layout.release.as_ref();
        release.is_none_or(|release| (from..to).contains(&release.number()))
    };
    match (kind, own, part) {
        // Somewhere in between nodes without memory stopped to be in their own list.
        (FigureKind::Fallback { .. }, ..) if between((6, 5), (6, 12)) => Some(Reason::Undecided),
        (FigureKind::DeviceInit { .. }, ..) => Some(Reason::Namespace),
        // A line that reports an area may be lost; areas that are reported are there.
        (FigureKind::Memory { cma, .. }, _, Part::MemoryCma) => {
            (*cma > Some(layout.cma_kib())).then_some(Reason::Reservations)
        }
        (
            FigureKind::ReservedPages { pages, .. },
            Some(FigureKind::ReservedPages { pages: own, .. }),
            _,
        ) => DmaReserve::AtLeast(*own)
            .allows(*pages, *own)
            .then_some(Reason::DmaReserve),
        (
            FigureKind::Zonelists { pages, .. },
            Some(FigureKind::Zonelists { pages: own, .. }),
            Part::ZonelistTotal,
        ) => {
            let used = (own + ours.dma_reserve.pages()).checked_sub(*pages)?;
            ours.dma_reserve
                .allows(used, ours.dma_reserve.pages())
                .then_some(Reason::DmaReserve)
        }
        _ => None,
    }
}

/// Whether two figures about the same thing say the same in `part`.
fn same(ours: &FigureKind, theirs: &FigureKind, part: Part) -> bool {
    words(ours, part) == words(theirs, part)
}

/// Whether two entries of a list are the same.
fn same_entry(ours: &FigureKind, theirs: &FigureKind) -> bool {
    match (ours, theirs) {
        // Kernels up to 5.13 may leave the node out.
        (
            FigureKind::Unavailable {
                zone: a, pages: x, ..
            },
            FigureKind::Unavailable {
                node: None,
                zone: b,
                pages: y,
            },
        ) => a == b && x == y,
        _ => ours == theirs,
    }
}

/// A list of ours laid beside the kernel's.
struct Aligned {
    /// For each of the kernel's, whether ours has it in its place.
    found: Vec<bool>,
    /// Those of ours that the kernel has not.
    ours_only: Vec<FigureKind>,
}

/// Finds the longest common subsequence of the two lists.
fn aligned(layout: &MachineLayout, ours: &Expected, name: &'static str) -> Aligned {
    let theirs: Vec<&FigureKind> = layout
        .figures
        .iter()
        .map(|figure| &figure.kind)
        .filter(|kind| kind.name() == name)
        .collect();
    let own: Vec<&FigureKind> = ours
        .figures
        .iter()
        .filter(|kind| kind.name() == name)
        .collect();
    let mut out = Aligned {
        found: vec![false; theirs.len()],
        ours_only: Vec::new(),
    };
    // What is equal at both ends needs no table.
    let head = own
        .iter()
        .zip(&theirs)
        .take_while(|(a, b)| same_entry(a, b))
        .count();
    out.found[..head].fill(true);
    let (own, rest) = (&own[head..], &theirs[head..]);
    if own.len() > ALIGNED || rest.len() > ALIGNED {
        for (at, kind) in rest.iter().enumerate() {
            out.found[head + at] = own.get(at).is_some_and(|own| same_entry(own, kind));
        }
        return out;
    }
    let width = rest.len() + 1;
    let mut best = vec![0u16; (own.len() + 1) * width];
    for i in (0..own.len()).rev() {
        for j in (0..rest.len()).rev() {
            best[i * width + j] = if same_entry(own[i], rest[j]) {
                best[(i + 1) * width + j + 1] + 1
            } else {
                best[(i + 1) * width + j].max(best[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < own.len() {
        if j < rest.len() && same_entry(own[i], rest[j]) {
            out.found[head + j] = true;
            (i, j) = (i + 1, j + 1);
        } else if j < rest.len() && best[i * width + j + 1] >= best[(i + 1) * width + j] {
            j += 1;
        } else {
            out.ours_only.push(own[i].clone());
            i += 1;
        }
    }
    out
}
