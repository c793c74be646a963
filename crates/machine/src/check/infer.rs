//! What a log does not say, found by what fits.
//!
//! Page size, section size, size of a struct page, how the memory map lies in memory and whether
//! the kernel counts it are not printed. Each combination that the architecture allows is tried.
//! For the figures of one kind, the combination is taken that agrees best with the figures of all
//! *other* kinds, so that no figure chooses the rule by which it is judged; where nothing decides,
//! the most usual one stands first.

use std::fmt;

use memmap_core::{Arch, KernelConfig, LifoBatch, ManagedEstimate, MemoryModel, Profile};

use super::compare::{Outcome, compare};
use super::expect::expected;
use super::{CheckReport, Checked, Reason, Verdict};
use crate::layout::{MachineLayout, PageSizeSource};
use crate::location::Location;
use crate::release::Architecture;

/// One thing that a log does not say, what was taken, and how the figures speak for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inference {
    /// What it is.
    pub what: &'static str,
    /// What was taken.
    pub taken: String,
    /// Why where no figure was asked: the input says it, or there is nothing to choose from.
    pub because: Option<String>,
    /// What was tried, the one that was taken first.
    pub candidates: Vec<Candidate>,
}

/// How many figures speak for one candidate, of those that tell the candidates apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// What was tried.
    pub name: String,
    /// Kinds of figures and how many of each agree with it.
    pub agree: Vec<(&'static str, usize)>,
    /// Figures that tell it from another candidate.
    pub of: usize,
}

impl Candidate {
    /// How many figures agree.
    pub fn count(&self) -> usize {
        self.agree.iter().map(|(_, count)| count).sum()
    }
}

/// `page size 64 KiB: totalpages and 5 hole lines agree; 4 KiB: 0 of 6`.
impl fmt::Display for Inference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.what, self.taken)?;
        if let Some(because) = &self.because {
            return f.write_str(because);
        }
        let Some((taken, others)) = self.candidates.split_first() else {
            return f.write_str("nothing to choose from");
        };
        if self.candidates.iter().all(|candidate| candidate.of == 0) {
            let names: Vec<_> = others.iter().map(|other| other.name.as_str()).collect();
            return write!(
                f,
                "the usual one; nothing printed tells it from {}",
                names.join(" or ")
            );
        }
        let kinds = taken
            .agree
            .iter()
            .map(|&(kind, count)| lines_of(kind, count));
        let kinds: Vec<_> = kinds.collect();
        match kinds.split_last() {
            None => write!(f, "0 of {}", taken.of)?,
            Some((last, [])) => write!(
                f,
                "{last} agree{}",
                if taken.count() == 1 { "s" } else { "" }
            )?,
            Some((last, first)) => write!(f, "{} and {last} agree", first.join(", "))?,
        }
        for other in others {
            write!(f, "; {}: {} of {}", other.name, other.count(), other.of)?;
        }
        Ok(())
    }
}

fn lines_of(kind: &str, count: usize) -> String {
    let noun = match kind {
        "unavailable pages" => "hole line",
        other => other,
    };
    match (count, noun) {
        (1, noun) => noun.to_owned(),
        (_, "hole line") => format!("{count} hole lines"),
        (_, noun) => format!("{count} {noun} lines"),
    }
}

/// What is varied, in the order in which it is told.
const AXES: [&str; 5] = [
    "page size",
    "section size",
    "struct page",
    "memory map",
    "zones are sized",
];

/// One combination and what it gives.
struct Tried {
    /// A word for each of [`AXES`].
    values: [String; AXES.len()],
    profile: Profile,
    outcomes: Vec<Outcome>,
}

/// See [`super::check`].
pub(super) fn check(layout: &MachineLayout) -> CheckReport {
    let choice = layout.profile_choice();
    let mut tried = Vec::new();
    let mut first_error = None;
    for (values, profile) in candidates(layout, &choice.profile) {
        match expected(layout, &profile) {
            Ok(ours) => tried.push(Tried {
                values,
                outcomes: compare(layout, &ours),
                profile,
            }),
            Err(error) => {
                first_error.get_or_insert_with(|| error.to_string());
            }
        }
    }
    // The first of those that nothing tells apart is the most usual one.
    let most = tried
        .iter()
        .map(|tried| agreeing(tried, layout, None))
        .max();
    let Some(best) = tried
        .iter()
        .position(|tried| Some(agreeing(tried, layout, None)) == most)
    else {
        return nothing(layout, choice, first_error);
    };
    let mut figures: Vec<(usize, Checked)> = Vec::new();
    for what in kinds(layout, &tried) {
        let scores: Vec<_> = tried
            .iter()
            .map(|tried| agreeing(tried, layout, Some(what)))
            .collect();
        let best = scores.iter().max().copied().unwrap_or(0);
        let mut tied = tried
            .iter()
            .zip(&scores)
            .filter(|(_, score)| **score == best)
            .map(|(tried, _)| tried);
        let Some(first) = tied.next() else {
            continue;
        };
        let others: Vec<&Tried> = tied.collect();
        let of_kind = first
            .outcomes
            .iter()
            .enumerate()
            .filter(|(_, outcome)| name(layout, outcome) == what);
        figures.extend(of_kind.map(|(at, outcome)| {
            let checked = Checked {
                at: location(layout, outcome),
                what,
                verdict: decided(at, outcome, &others),
            };
            (at, checked)
        }));
    }
    // In the order of the log, what the kernel did not print last.
    figures.sort_by_key(|(at, figure)| (figure.at.line == 0, figure.at.line, *at));
    let figures = figures.into_iter().map(|(_, figure)| figure).collect();
    CheckReport {
        figures,
        inferences: inferences(layout, &choice, &tried, best),
        profile: tried[best].profile.clone(),
        choice,
        error: None,
    }
}

/// The name of the figure that `outcome` is about.
fn name(layout: &MachineLayout, outcome: &Outcome) -> &'static str {
    let kind = outcome.figure.and_then(|index| layout.figures.get(index));
    outcome
        .part
        .name(kind.map_or("", |figure| figure.kind.name()))
}

fn location(layout: &MachineLayout, outcome: &Outcome) -> Location {
    let figure = outcome.figure.and_then(|index| layout.figures.get(index));
    figure.map_or_else(Location::default, |figure| figure.at.clone())
}

/// The verdict of `outcome`, which is number `at`, unless another candidate that fits as well has
/// it right.
fn decided(at: usize, outcome: &Outcome, others: &[&Tried]) -> Verdict {
    if !matches!(outcome.verdict, Verdict::Differs { .. }) {
        return outcome.verdict.clone();
    }
    let elsewhere = |tried: &&Tried| match outcome.figure {
        // What only we would print is wrong wherever another candidate would not print it.
        None => !tried.outcomes.contains(outcome),
        // Printed figures come first and are the same for all, so places agree.
        Some(_) => tried
            .outcomes
            .get(at)
            .is_some_and(|other| matches!(other.verdict, Verdict::Equal | Verdict::CannotKnow(_))),
    };
    match others.iter().any(elsewhere) {
        true => Verdict::CannotKnow(Reason::Undecided),
        false => outcome.verdict.clone(),
    }
}

fn nothing(
    layout: &MachineLayout,
    choice: crate::ProfileChoice,
    error: Option<String>,
) -> CheckReport {
    let figures = layout
        .figures
        .iter()
        .map(|figure| Checked {
            at: figure.at.clone(),
            what: figure.kind.name(),
            verdict: Verdict::CannotKnow(Reason::NoGeometry),
        })
        .collect();
    CheckReport {
        figures,
        profile: choice.profile.clone(),
        choice,
        inferences: Vec::new(),
        error: error.or_else(|| Some("no profile fits".to_owned())),
    }
}

fn kinds(layout: &MachineLayout, tried: &[Tried]) -> Vec<&'static str> {
    let all = tried.iter().flat_map(|tried| &tried.outcomes);
    let mut kinds: Vec<_> = all.map(|outcome| name(layout, outcome)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Figures that agree, leaving out those of kind `without`.
fn agreeing(tried: &Tried, layout: &MachineLayout, without: Option<&str>) -> usize {
    let equal = tried.outcomes.iter().filter(|outcome| {
        outcome.verdict == Verdict::Equal
            && without.is_none_or(|kind| name(layout, outcome) != kind)
    });
    equal.count()
}

/// How each thing that the log does not say was decided.
fn inferences(
    layout: &MachineLayout,
    choice: &crate::ProfileChoice,
    tried: &[Tried],
    best: usize,
) -> Vec<Inference> {
    let mut out: Vec<Inference> = (0..AXES.len())
        .map(|axis| along(layout, tried, best, axis))
        .collect();
    if let Some(page) = out.first_mut()
        && layout.provenance.page_size != PageSizeSource::Usual
    {
        page.because = Some(layout.provenance.page_size.to_string());
    }
    out.push(Inference {
        what: "NODES_SHIFT",
        taken: choice.profile.nodes_shift.to_string(),
        because: Some(choice.nodes_shift_because()),
        candidates: Vec::new(),
    });
    out
}

/// What the figures say of one axis: for each of its values, the best combination that has it.
fn along(layout: &MachineLayout, tried: &[Tried], best: usize, axis: usize) -> Inference {
    let taken = &tried[best].values[axis];
    let mut values: Vec<(&String, &Tried)> = vec![(taken, &tried[best])];
    for other in tried {
        let value = &other.values[axis];
        match values.iter().position(|(known, _)| *known == value) {
            Some(0) => {}
            Some(at) => {
                if agreeing(other, layout, None) > agreeing(values[at].1, layout, None) {
                    values[at].1 = other;
                }
            }
            None => values.push((value, other)),
        }
    }
    let printed = tried[best]
        .outcomes
        .iter()
        .take_while(|outcome| outcome.figure.is_some())
        .count();
    let equal = |tried: &Tried, at: usize| {
        let outcome = tried.outcomes.get(at);
        outcome.is_some_and(|outcome| outcome.verdict == Verdict::Equal)
    };
    let compared = |tried: &Tried, at: usize| {
        let outcome = tried.outcomes.get(at);
        outcome.is_some_and(|outcome| {
            matches!(outcome.verdict, Verdict::Equal | Verdict::Differs { .. })
        })
    };
    let telling: Vec<usize> = (0..printed)
        .filter(|&at| {
            let some = values.iter().any(|(_, tried)| equal(tried, at));
            let all = values.iter().all(|(_, tried)| equal(tried, at));
            some && !all && values.iter().all(|(_, tried)| compared(tried, at))
        })
        .collect();
    let candidates = values.iter().map(|(value, tried)| {
        let mut agree: Vec<(&'static str, usize)> = Vec::new();
        for &at in telling.iter().filter(|&&at| equal(tried, at)) {
            let kind = name(layout, &tried.outcomes[at]);
            match agree.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1,
                None => agree.push((kind, 1)),
            }
        }
        Candidate {
            name: (*value).clone(),
            agree,
            of: telling.len(),
        }
    });
    let candidates: Vec<_> = candidates.collect();
    let only = candidates.len() == 1;
    Inference {
        what: AXES[axis],
        taken: taken.clone(),
        because: only.then(|| "the only one that this kernel can have".to_owned()),
        candidates,
    }
}

/// The combinations that the architecture and version allow, the most usual one first.
fn candidates(layout: &MachineLayout, nearest: &Profile) -> Vec<([String; AXES.len()], Profile)> {
    let mut out = Vec::new();
    let version = layout.release.as_ref().map(|release| release.number());
    let bases = page_sizes(layout, nearest)
        .into_iter()
        .flat_map(|profile| sections(&profile, version))
        .flat_map(|profile| models(&profile));
    for profile in bases {
        for estimate in estimates(version, &profile) {
            for &struct_bytes in struct_sizes(estimate) {
                let mut config: KernelConfig = profile.config().clone();
                config.behaviours.managed_estimate = estimate;
                config.struct_page_bytes = struct_bytes;
                // A smaller struct page is one without its memory control group.
                config.memcg &= struct_bytes >= 64;
                if version.is_some_and(|version| version < (6, 19)) {
                    config.behaviours.lifo_batch = LifoBatch::ZeroForTiny;
                }
                out.extend(
                    config
                        .build()
                        .ok()
                        .map(|profile| (values(&profile), profile)),
                );
            }
        }
    }
    if out.is_empty() {
        out.push((values(nearest), nearest.clone()));
    }
    out
}

fn values(profile: &Profile) -> [String; AXES.len()] {
    let counts = match profile.behaviours.managed_estimate {
        ManagedEstimate::LessMemmap => "less their memory map",
        ManagedEstimate::Present => "with their memory map",
    };
    let model = match profile.memory_model {
        MemoryModel::Flat => "in one array",
        _ => "in sections",
    };
    [
        format!("{} KiB", profile.page_size() >> 10),
        format!("{} MiB", (1u64 << profile.section_bits) >> 20),
        format!("{} bytes", profile.struct_page_bytes),
        model.to_owned(),
        counts.to_owned(),
    ]
}

/// The preset's memory model; on architectures whose small kernels have one array, that too.
fn models(profile: &Profile) -> Vec<Profile> {
    let mut out = vec![profile.clone()];
    if matches!(profile.arch, Arch::Riscv64 | Arch::Ppc64) {
        let mut config = profile.config().clone();
        config.memory_model = MemoryModel::Flat;
        config.deferred_init = false;
        // One array is for one node.
        config.nodes_shift = 0;
        config.numa_balancing = false;
        out.extend(config.build());
    }
    out
}

/// The preset's section; where sections once had another size, that too: 1 GiB on arm64 before
/// 5.12, 256 MiB on s390x up to some release behind 6.12 and 128 MiB from then on.
fn sections(profile: &Profile, version: Option<(u16, u16)>) -> Vec<Profile> {
    let others: &[u32] = match profile.arch {
        Arch::Arm64 if version.is_none_or(|version| version < (5, 12)) => &[30],
        Arch::S390x if version.is_none_or(|version| version > (6, 12)) => &[27, 28],
        _ => &[],
    };
    let mut out = vec![profile.clone()];
    for &bits in others.iter().filter(|&&bits| bits != profile.section_bits) {
        let mut config = profile.config().clone();
        config.section_bits = bits;
        out.extend(config.build());
    }
    out
}

fn page_sizes(layout: &MachineLayout, nearest: &Profile) -> Vec<Profile> {
    let mut out = vec![nearest.clone()];
    let sizes = layout
        .architecture
        .map_or(&[4096][..], Architecture::page_sizes);
    if layout.provenance.page_size == PageSizeSource::Usual {
        for &size in sizes {
            if size != nearest.page_size() {
                out.push(layout.profile_choice_of(size).profile);
            }
        }
    }
    out
}

/// Zones were sized less their own memory map at first; the change came between 6.8 and 6.11
/// (seen: counted on machines with 6.7 and 6.8, not counted on three with 6.11).
fn estimates(version: Option<(u16, u16)>, profile: &Profile) -> Vec<ManagedEstimate> {
    match version {
        Some(version) if version < (6, 9) => vec![ManagedEstimate::LessMemmap],
        Some(version) if version >= (6, 11) => vec![ManagedEstimate::Present],
        _ => match profile.behaviours.managed_estimate {
            ManagedEstimate::Present => {
                vec![ManagedEstimate::Present, ManagedEstimate::LessMemmap]
            }
            ManagedEstimate::LessMemmap => {
                vec![ManagedEstimate::LessMemmap, ManagedEstimate::Present]
            }
        },
    }
}

fn struct_sizes(estimate: ManagedEstimate) -> &'static [u32] {
    match estimate {
        // Nothing that is printed depends on it.
        ManagedEstimate::Present => &[64],
        ManagedEstimate::LessMemmap => &[64, 56],
    }
}
