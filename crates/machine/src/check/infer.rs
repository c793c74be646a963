//! What a log does not say, found by what fits.
//!
//! Page size, size of a struct page and when the kernel stopped counting its own memory map are
//! not printed. Each combination that the architecture allows is tried. For the figures of one
//! kind, the combination is taken that agrees best with the figures of all *other* kinds, so that
//! no figure chooses the rule by which it is judged; where nothing decides, the most usual one
//! stands first.

use memmap_core::{Arch, KernelConfig, LifoBatch, ManagedEstimate, MemoryModel, Profile};

use super::compare::compare;
use super::expect::expected;
use super::{Candidate, CheckReport, Checked, Reason, Verdict};
use crate::layout::{MachineLayout, PageSizeSource};
use crate::release::Architecture;

/// One combination and what it gives.
struct Tried {
    name: String,
    figures: Vec<Checked>,
}

/// See [`super::check`].
pub(super) fn check(layout: &MachineLayout) -> CheckReport {
    let choice = layout.profile_choice();
    let mut tried = Vec::new();
    let mut first_error = None;
    for (name, profile) in candidates(layout, &choice.profile) {
        match expected(layout, &profile) {
            Ok(ours) => tried.push(Tried {
                name,
                figures: compare(layout, &ours),
            }),
            Err(error) => {
                first_error.get_or_insert_with(|| error.to_string());
            }
        }
    }
    if tried.is_empty() {
        return nothing(layout, choice, first_error);
    }
    let mut figures: Vec<Checked> = Vec::new();
    for what in kinds(&tried) {
        let scores: Vec<_> = tried
            .iter()
            .map(|tried| agreeing(tried, Some(what)).0)
            .collect();
        let best = scores.iter().max().copied().unwrap_or(0);
        let mut tied = tried
            .iter()
            .zip(&scores)
            .filter(|(_, score)| **score == best)
            .map(|(tried, _)| tried);
        // The first of those that nothing tells apart is the most usual one.
        let Some(first) = tied.next() else {
            continue;
        };
        let others: Vec<&Tried> = tied.collect();
        let of_kind = first.figures.iter().filter(|figure| figure.what == what);
        figures.extend(of_kind.map(|figure| decided(figure, &others)));
    }
    // In the order of the log, what the kernel did not print last.
    figures.sort_by_key(|figure| (figure.at.line == 0, figure.at.line));
    let mut candidates: Vec<_> = tried
        .iter()
        .map(|tried| {
            let (agree, of) = agreeing(tried, None);
            Candidate {
                name: tried.name.clone(),
                agree,
                of,
            }
        })
        .collect();
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.agree));
    CheckReport {
        figures,
        choice: Some(choice),
        candidates,
        error: None,
    }
}

/// `figure`, unless another candidate that fits as well has it right.
fn decided(figure: &Checked, others: &[&Tried]) -> Checked {
    let mut out = figure.clone();
    let right = |other: &Checked| {
        let same = other.what == figure.what && other.at == figure.at;
        same && matches!(other.verdict, Verdict::Equal | Verdict::CannotKnow(_))
    };
    // What only we would print is wrong wherever another candidate would not print it.
    let elsewhere = |tried: &&Tried| match figure.at.line {
        0 => !tried.figures.contains(figure),
        _ => tried.figures.iter().any(right),
    };
    if matches!(figure.verdict, Verdict::Differs { .. }) && others.iter().any(elsewhere) {
        out.verdict = Verdict::CannotKnow(Reason::Undecided);
    }
    out
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
        choice: Some(choice),
        candidates: Vec::new(),
        error: error.or_else(|| Some("no profile fits".to_owned())),
    }
}

fn kinds(tried: &[Tried]) -> Vec<&'static str> {
    let all = tried.iter().flat_map(|tried| &tried.figures);
    let mut kinds: Vec<_> = all.map(|figure| figure.what).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Figures that agree, and that were compared, leaving out those of kind `without`.
fn agreeing(tried: &Tried, without: Option<&str>) -> (usize, usize) {
    let compared = tried.figures.iter().filter(|figure| {
        Some(figure.what) != without
            && matches!(figure.verdict, Verdict::Equal | Verdict::Differs { .. })
    });
    let equal = compared
        .clone()
        .filter(|figure| figure.verdict == Verdict::Equal);
    (equal.count(), compared.count())
}

/// The combinations that the architecture and version allow, the most usual one first.
fn candidates(layout: &MachineLayout, nearest: &Profile) -> Vec<(String, Profile)> {
    let mut out = Vec::new();
    let version = layout.release.as_ref().map(|release| release.number());
    for profile in page_sizes(layout, nearest).iter().flat_map(models) {
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
                let counts = match estimate {
                    ManagedEstimate::LessMemmap => "counted",
                    ManagedEstimate::Present => "not counted",
                };
                let model = match profile.memory_model {
                    MemoryModel::Flat => "one array",
                    _ => "sections",
                };
                let name = format!(
                    "page {}K, struct page {struct_bytes}, memmap in {model}, {counts}",
                    profile.page_size() >> 10
                );
                out.extend(config.build().ok().map(|profile| (name, profile)));
            }
        }
    }
    if out.is_empty() {
        out.push(("the preset".to_owned(), nearest.clone()));
    }
    out
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

fn page_sizes(layout: &MachineLayout, nearest: &Profile) -> Vec<Profile> {
    let mut out = vec![nearest.clone()];
    let sizes = layout
        .architecture
        .map_or(&[4096][..], Architecture::page_sizes);
    if layout.provenance.page_size == PageSizeSource::Usual {
        for &size in sizes {
            if size != nearest.page_size() {
                let mut other = layout.clone();
                other.page_size = size;
                out.push(other.profile());
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
