//! Our figures beside the kernel's own.
//!
//! From a [`MachineLayout`] a memory map is worked out, and every figure that the kernel printed
//! and that follows from it is compared. Each gets a [`Verdict`]: an input proves nothing, a
//! figure that depends on what no log tells is not guessed at, and the rest is equal or not.
//!
//! Which figures there are, how what a log does not say is inferred, and every rule by which a
//! figure is taken as input or left unknown, with the machines behind it, stands in
//! `docs/checks.md`; [`Reason::rule`] names the rule.

mod compare;
mod expect;
mod holes;
mod infer;
mod reserved;
mod warnings;
mod words;

use std::fmt;

use memblock::Memblock;
use memmap_core::{Geometry, GeometryError, Profile};

pub use infer::{Candidate, Inference};
pub use warnings::{Warning, warnings};

use crate::layout::{MachineLayout, ProfileChoice};
use crate::location::Location;

/// Why a figure cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It depends on how a namespace of the device was made.
    Namespace,
    /// It depends on reservations that the input does not tell of.
    Reservations,
    /// It depends on the pages that were in use below 16 MiB, which no line tells of.
    DmaReserve,
    /// This version means something else by the line.
    OtherMeaning,
    /// Lines of the input are lost or garbled.
    BrokenInput,
    /// No memory map follows from the input.
    NoGeometry,
    /// It depends on which memory has no mapping, which the input does not tell.
    NoMap,
    /// The input does not tell the architecture.
    NoArchitecture,
    /// Nothing else in the log tells which of several rules holds, and they disagree.
    Undecided,
}

impl Reason {
    /// The name of the rule in `docs/checks.md` that says why.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Reservations => "reservations",
            Self::DmaReserve => "dma-reserve",
            Self::OtherMeaning => "other-meaning",
            Self::BrokenInput => "broken-input",
            Self::NoGeometry => "no-map",
            Self::NoMap => "no-mapping",
            Self::NoArchitecture => "no-architecture",
            Self::Undecided => "undecided",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespace => "needs how the device's namespace was made",
            Self::Reservations => "needs reservations that the input does not tell of",
            Self::DmaReserve => "needs the pages in use below 16 MiB, which no line tells",
            Self::OtherMeaning => "this version means something else by it",
            Self::BrokenInput => "lines of the input are lost or garbled",
            Self::NoGeometry => "no memory map follows from the input",
            Self::NoMap => "needs which memory has no mapping, which the input does not tell",
            Self::NoArchitecture => "the input does not tell the architecture",
            Self::Undecided => "nothing else in the log tells which rule holds",
        })
    }
}

/// What became of one figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was an input: finding it again proves nothing.
    Input,
    /// Ours is the same.
    Equal,
    /// Ours is another, or we have none.
    Differs {
        /// Ours, if there is one.
        ours: Option<String>,
    },
    /// Not compared, and why.
    CannotKnow(Reason),
}

impl Verdict {
    /// The word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Equal => "equal",
            Self::Differs { .. } => "differs",
            Self::CannotKnow(_) => "cannot know",
        }
    }
}

/// One figure and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The kernel's line; line 0 where the kernel printed none and we would.
    pub at: Location,
    /// The kind of figure.
    pub what: &'static str,
    /// What became of it.
    pub verdict: Verdict,
}

/// How many figures of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Inputs.
    pub input: usize,
    /// Equal.
    pub equal: usize,
    /// Different.
    pub differs: usize,
    /// Not known.
    pub cannot_know: usize,
}

impl Tally {
    /// The count of one.
    pub fn of(verdict: &Verdict) -> Self {
        let mut tally = Self::default();
        match verdict {
            Verdict::Input => tally.input = 1,
            Verdict::Equal => tally.equal = 1,
            Verdict::Differs { .. } => tally.differs = 1,
            Verdict::CannotKnow(_) => tally.cannot_know = 1,
        }
        tally
    }

    /// How many in a hundred of those that were compared are equal; 0 where none was.
    pub fn equal_share(&self) -> f64 {
        let compared = self.equal + self.differs;
        self.equal as f64 * 100.0 / compared.max(1) as f64
    }

    /// Adds another count.
    pub fn add(&mut self, other: Self) {
        self.input += other.input;
        self.equal += other.equal;
        self.differs += other.differs;
        self.cannot_know += other.cannot_know;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} equal, {} differ, {} input, {} cannot be known",
            self.equal, self.differs, self.input, self.cannot_know
        )
    }
}

/// Everything that was found for one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Every figure, in the order printed; then what we would print and the kernel did not.
    pub figures: Vec<Checked>,
    /// The nearest profile by what the log says, and what of it was guessed.
    pub choice: ProfileChoice,
    /// The profile with what was inferred: the one to build a memory map by.
    pub profile: Profile,
    /// What the log does not say, what was taken and why.
    pub inferences: Vec<Inference>,
    /// Why there is no memory map.
    pub error: Option<String>,
}

impl CheckReport {
    /// Counts by verdict.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for figure in &self.figures {
            tally.add(Tally::of(&figure.verdict));
        }
        tally
    }

    /// Whether nothing that could be compared differs.
    pub fn agrees(&self) -> bool {
        self.error.is_none() && self.tally().differs == 0
    }
}

/// A memory map could not be made from a layout.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// memblock refuses the layout.
    #[error(transparent)]
    Layout(#[from] crate::LayoutError),
    /// No zones and nodes follow from it.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

/// memblock and the zones of `layout`, if its kernel was built as `profile` says.
///
/// # Errors
/// * [`BuildError::Layout`] where memblock refuses a range.
/// * [`BuildError::Geometry`] where no zones and nodes follow.
pub fn build(
    layout: &MachineLayout,
    profile: &Profile,
) -> Result<(Memblock, Geometry), BuildError> {
    let (memblock, geometry, _) = expect::built(layout, profile)?;
    Ok((memblock, geometry))
}

/// Compares every figure that `layout`'s kernel printed with ours.
///
/// What the log does not say (page size, size of a struct page, ...) is inferred: candidates are
/// tried, and for each kind of figure the one is taken that agrees best with all *other* kinds.
pub fn check(layout: &MachineLayout) -> CheckReport {
    infer::check(layout)
}
