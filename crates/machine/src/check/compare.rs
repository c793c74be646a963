//! One figure of the kernel's against ours.

use memblock::NodeId;
use memmap_core::ZoneKind;

use super::expect::Expected;
use super::{Checked, Reason, Verdict, words};
use crate::figures::{Figure, FigureKind};
use crate::layout::{MachineLayout, MemorySource};
use crate::location::Location;
use crate::release::Architecture;

/// Longest list that is aligned exactly; longer ones are compared place by place.
const ALIGNED: usize = 3000;

/// What a figure is about: figures of one kind with equal keys speak of the same thing.
type Key = (&'static str, Option<NodeId>, Option<ZoneKind>);

fn key(kind: &FigureKind) -> Key {
    let (node, zone) = match *kind {
        FigureKind::ZoneRange { zone, .. } | FigureKind::PolicyZone { zone } => (None, Some(zone)),
        FigureKind::MovableStart { node, .. }
        | FigureKind::Initmem { node, .. }
        | FigureKind::TotalPages { node, .. } => (Some(node), None),
        FigureKind::MemmapPages { node, zone, .. }
        | FigureKind::ReservedPages { node, zone, .. }
        | FigureKind::ZonePages { node, zone, .. } => (node, Some(zone)),
        _ => (None, None),
    };
    // The policy zone is one figure, whichever zone it is.
    let zone = zone.filter(|_| !matches!(kind, FigureKind::PolicyZone { .. }));
    (kind.name(), node, zone)
}

/// Every printed figure with its verdict, then what only we would print.
pub(super) fn compare(layout: &MachineLayout, ours: &Expected) -> Vec<Checked> {
    let mut out = Vec::with_capacity(layout.figures.len() + 4);
    let early = aligned(layout, ours, "early node range");
    let holes = aligned(layout, ours, "unavailable pages");
    let (mut next_early, mut next_hole) = (0, 0);
    for figure in layout.figures.iter() {
        match figure.kind {
            FigureKind::EarlyRange { .. } => {
                out.push(verdict(layout, ours, figure, Some(early.found[next_early])));
                next_early += 1;
            }
            FigureKind::Unavailable { .. } => {
                out.push(verdict(layout, ours, figure, Some(holes.found[next_hole])));
                next_hole += 1;
            }
            FigureKind::Memory { reserved, .. } => {
                out.push(verdict(layout, ours, figure, None));
                out.push(reserved_of_memory(ours, figure, reserved));
            }
            _ => out.push(verdict(layout, ours, figure, None)),
        }
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
        let known = |kind: &&FigureKind| {
            matches!(kind, FigureKind::MovableStart { .. })
                && !layout
                    .figures
                    .iter()
                    .any(|figure| key(&figure.kind) == key(kind))
        };
        out.extend(
            ours.figures
                .iter()
                .filter(known)
                .map(|kind| missing(layout, kind)),
        );
    }
    out
}

/// A line that we would print and the kernel did not.
fn missing(layout: &MachineLayout, kind: &FigureKind) -> Checked {
    let verdict = if layout.architecture.is_none() {
        Verdict::CannotKnow(Reason::NoArchitecture)
    } else if layout.provenance.unreadable > 0 {
        Verdict::CannotKnow(Reason::BrokenInput)
    } else {
        Verdict::Differs {
            ours: Some(words(kind)),
        }
    };
    Checked {
        at: Location::default(),
        what: kind.name(),
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

fn reserved_of_memory(ours: &Expected, figure: &Figure, reserved: u64) -> Checked {
    let verdict = match ours.reserved_kib {
        None => Verdict::CannotKnow(Reason::Reservations),
        Some(own) if own == reserved => Verdict::Equal,
        Some(own) => Verdict::Differs {
            ours: Some(format!("{own}K reserved")),
        },
    };
    Checked {
        at: figure.at.clone(),
        what: "Memory line, reserved",
        verdict,
    }
}

/// Why `figure` is not compared, if so.
fn not_compared(layout: &MachineLayout, ours: &Expected, kind: &FigureKind) -> Option<Reason> {
    let before = |major, minor| {
        layout
            .release
            .as_ref()
            .is_some_and(|release| release.number() < (major, minor))
    };
    if layout.architecture.is_none() {
        return Some(Reason::NoArchitecture);
    }
    match kind {
        FigureKind::DeferredInit { .. } | FigureKind::DeviceInit { .. } => {
            Some(Reason::NotOfTheLayout)
        }
        FigureKind::ZeroedPages { .. } if layout.architecture == Some(Architecture::Arm64) => {
            Some(Reason::NoMap)
        }
        FigureKind::ReservedUnavailable { .. } => Some(Reason::Reservations),
        FigureKind::Initmem { .. } if before(3, 17) => Some(Reason::OtherMeaning),
        FigureKind::Memory { .. } if before(3, 11) => Some(Reason::OtherMeaning),
        FigureKind::ReservedPages { .. } if layout.provenance.memory != MemorySource::None => {
            // It is what the other figures are computed with.
            matches!(layout.architecture, Some(Architecture::Amd64) | None)
                .then_some(Reason::DmaReserve)
        }
        FigureKind::Zonelists { .. } if ours.dma_reserve_unknown => Some(Reason::DmaReserve),
        _ => None,
    }
}

fn verdict(
    layout: &MachineLayout,
    ours: &Expected,
    figure: &Figure,
    aligned: Option<bool>,
) -> Checked {
    let kind = &figure.kind;
    let taken = matches!(kind, FigureKind::OfflineNode { .. })
        || ours.dma_limit_taken
            && matches!(
                kind,
                FigureKind::ZoneRange {
                    zone: ZoneKind::Dma,
                    ..
                }
            );
    let verdict = if taken || layout.is_input(figure) {
        Verdict::Input
    } else if let Some(reason) = not_compared(layout, ours, kind) {
        Verdict::CannotKnow(reason)
    } else {
        let own = ours.figures.iter().find(|own| key(own) == key(kind));
        let equal = aligned.unwrap_or_else(|| own.is_some_and(|own| same(own, kind)));
        match equal {
            true => Verdict::Equal,
            // What is lost of the input is missing here too.
            false if layout.provenance.unreadable > 0 => Verdict::CannotKnow(Reason::BrokenInput),
            false => Verdict::Differs {
                ours: own.filter(|_| aligned.is_none()).map(words),
            },
        }
    };
    Checked {
        at: figure.at.clone(),
        what: kind.name(),
        verdict,
    }
}

/// Whether two figures about the same thing say the same.
fn same(ours: &FigureKind, theirs: &FigureKind) -> bool {
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
        _ => words(ours) == words(theirs),
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
        .take_while(|(a, b)| same(a, b))
        .count();
    out.found[..head].fill(true);
    let (own, rest) = (&own[head..], &theirs[head..]);
    if own.len() > ALIGNED || rest.len() > ALIGNED {
        for (at, kind) in rest.iter().enumerate() {
            out.found[head + at] = own.get(at).is_some_and(|own| same(own, kind));
        }
        return out;
    }
    let width = rest.len() + 1;
    let mut best = vec![0u16; (own.len() + 1) * width];
    for i in (0..own.len()).rev() {
        for j in (0..rest.len()).rev() {
            best[i * width + j] = if same(own[i], rest[j]) {
                best[(i + 1) * width + j + 1] + 1
            } else {
                best[(i + 1) * width + j].max(best[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < own.len() {
        if j < rest.len() && same(own[i], rest[j]) {
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
