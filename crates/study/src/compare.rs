//! Two studies beside each other: what B takes over what A takes, setting by setting.
//!
//! Runs of two studies are not paired, so both sides are resampled. Beside times stand times over the
//! limit of the same study, in which what changed about the machine meanwhile cancels; where the two
//! tell different stories, the machine is the difference and not the code. Boots are held against the
//! eager boot of their study in the same way.

use std::collections::BTreeMap;
use std::fmt;

use crate::analysis::{Analysis, Cell};
use crate::boots::Wait;
use crate::judge::{MIN_ROUNDS, Ratio, unpaired};
use crate::record::{Record, Role, Settings};
use crate::table::{Align, Table};

/// What is to be said of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B takes less time for sure.
    Faster,
    /// B takes more time for sure.
    Slower,
    /// The interval has both sides of 1.
    NoClearDifference,
    /// One side has too few rounds.
    NoVerdict,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faster => "B takes less",
            Self::Slower => "B takes more",
            Self::NoClearDifference => "no clear difference",
            Self::NoVerdict => "no verdict: too few rounds",
        })
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// The time to write the whole map.
    Time,
    /// What a boot makes one wait for.
    Boot(Wait),
}

impl Measured {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Boot(wait) => wait.name(),
        }
    }

    fn times(self, cell: &Cell) -> BTreeMap<u64, f64> {
        match self {
            Self::Time => cell.times.clone(),
            Self::Boot(wait) => wait.times(cell),
        }
    }

    /// What a cell is held against in its own study: the limit, or the eager boot.
    fn reference(self, analysis: &Analysis, cell: &Cell) -> Option<BTreeMap<u64, f64>> {
        let reference = match self {
            Self::Time => analysis.limit(cell),
            Self::Boot(_) => analysis.eager_boot(cell),
        };
        Some(self.times(reference?))
    }
}

/// One setting in both studies.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// What is compared.
    pub what: Measured,
    /// The setting.
    pub settings: Settings,
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// Time of B over that of A.
    pub time: Ratio,
    /// The same of times over those of the reference, the limit or the eager boot; `None` where one
    /// study has none for it.
    pub of_reference: Option<Ratio>,
    /// What the times say.
    pub verdict: Verdict,
}

/// Two studies beside each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Settings that both have, in the order of A.
    pub effects: Vec<Effect>,
    /// Settings of A alone.
    pub only_a: Vec<Settings>,
    /// Settings of B alone.
    pub only_b: Vec<Settings>,
    /// What makes the two less comparable than they look.
    pub warnings: Vec<String>,
}

/// Compares the records of two studies.
pub fn compare(a: &[Record], b: &[Record]) -> Comparison {
    let (one, other) = (Analysis::of(a), Analysis::of(b));
    let same = |x: &Cell, y: &Cell| x.memory == y.memory && x.settings == y.settings;
    let alone = |own: &Analysis, their: &Analysis| {
        asked(own)
            .filter(|cell| !asked(their).any(|twin| same(cell, twin)))
            .map(|cell| cell.settings.clone())
            .collect()
    };
    let mut effects = Vec::new();
    for cell in asked(&one) {
        let Some(twin) = asked(&other).find(|twin| same(cell, twin)) else {
            continue;
        };
        let boots = || Wait::ALL.map(Measured::Boot).to_vec();
        let measured = match cell.role.is_boot() {
            true => boots(),
            false => vec![Measured::Time],
        };
        let own = |what| effect(what, (&one, cell), (&other, twin));
        effects.extend(measured.into_iter().filter_map(own));
    }
    Comparison {
        effects,
        only_a: alone(&one, &other),
        only_b: alone(&other, &one),
        warnings: warnings(a, b, &one, &other),
    }
}

/// All that a study asks about, with times.
fn asked(analysis: &Analysis) -> impl Iterator<Item = &Cell> {
    analysis.asked().chain(analysis.boots())
}

fn effect(
    what: Measured,
    (one, a): (&Analysis, &Cell),
    (other, b): (&Analysis, &Cell),
) -> Option<Effect> {
    let times = |cell: &Cell| what.times(cell).into_values().collect::<Vec<f64>>();
    // a run over the reference's of its own round
    let shares = |analysis: &Analysis, cell: &Cell| -> Option<Vec<f64>> {
        let reference = what.reference(analysis, cell)?;
        let shares = what
            .times(cell)
            .into_iter()
            .filter_map(|(round, time)| Some(time / reference.get(&round)?));
        Some(shares.collect())
    };
    let time = unpaired(&times(b), &times(a), one.rule())?;
    let of_reference = shares(one, a)
        .zip(shares(other, b))
        .and_then(|(a, b)| unpaired(&b, &a, one.rule()));
    let verdict = match time.rounds < MIN_ROUNDS {
        true => Verdict::NoVerdict,
        false if time.high < 1.0 => Verdict::Faster,
        false if time.low > 1.0 => Verdict::Slower,
        false => Verdict::NoClearDifference,
    };
    Some(Effect {
        what,
        settings: a.settings.clone(),
        memory: a.memory,
        time,
        of_reference,
        verdict,
    })
}

fn warnings(a: &[Record], b: &[Record], one: &Analysis, other: &Analysis) -> Vec<String> {
    let mut warnings = Vec::new();
    if let (Some(a), Some(b)) = (a.first(), b.first()) {
        for (what, a, b) in [
            ("host", &a.host.name, &b.host.name),
            ("processor", &a.host.cpu, &b.host.cpu),
            ("kernel", &a.host.kernel, &b.host.kernel),
            ("governor", &a.host.governor, &b.host.governor),
            ("commit", &a.host.commit, &b.host.commit),
            ("layout", &a.layout.source, &b.layout.source),
        ] {
            if a != b {
                warnings.push(format!("{what}: A `{a}`, B `{b}`"));
            }
        }
    }
    for (name, analysis) in [("A", one), ("B", other)] {
        if let Some(drift) = analysis.drift().filter(|drift| drift.is_flagged()) {
            warnings.push(format!(
                "the machine of {name} drifted by {:.2} [{:.2}, {:.2}] in the course of the study",
                drift.ratio.median, drift.ratio.low, drift.ratio.high
            ));
        }
        let noisy = analysis.noisy().len();
        if noisy > 0 {
            warnings.push(format!(
                "the machine of {name} was noisy: {noisy} settings differ by a tenth or more from run \
                 to run"
            ));
        }
        let missing = analysis
            .missing()
            .iter()
            .filter(|gone| gone.rounds > 0)
            .count();
        if missing > 0 {
            warnings.push(format!("{name} lacks runs of {missing} settings"));
        }
    }
    if one.traced.0 + other.traced.0 > 0 {
        let told = |(traced, all): (usize, usize)| format!("{traced} of {all}");
        warnings.push(format!(
            "traced runs, which take longer than others: A {}, B {}",
            told(one.traced),
            told(other.traced)
        ));
    }
    let limits = |analysis: &Analysis| {
        let limit = analysis.cells.iter().find(|cell| cell.role == Role::Limit);
        limit.and_then(Cell::gb_a_second)
    };
    if let (Some(a), Some(b)) = (limits(one), limits(other))
        && !(0.9..1.1).contains(&(b / a))
    {
        warnings.push(format!(
            "the limit itself is {:.2} times as fast in B: go by `over reference`",
            b / a
        ));
    }
    warnings
}

impl Comparison {
    /// How many figures say what, in a sentence.
    pub fn words(&self) -> String {
        let of = |verdict: Verdict| {
            let effects = self.effects.iter();
            effects.filter(|effect| effect.verdict == verdict).count()
        };
        let all = self.effects.len();
        if all == 0 {
            return "A and B have no settings in common: there is nothing to compare.".to_owned();
        }
        if of(Verdict::NoVerdict) == all {
            return format!(
                "No verdict on any of {all} figures that both have: that takes {MIN_ROUNDS} rounds of \
                 each."
            );
        }
        format!(
            "Of {all} figures that both have, B takes less in {}, more in {}, and cannot be told from A in \
             {} (95 % intervals of the ratio){}.",
            of(Verdict::Faster),
            of(Verdict::Slower),
            of(Verdict::NoClearDifference),
            match of(Verdict::NoVerdict) {
                0 => String::new(),
                few => format!("; no verdict on {few}, of which there are too few rounds"),
            }
        )
    }
}

/// A table, how many say what, what only one side has, and warnings.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio =
            |ratio: &Ratio| format!("{:.3} [{:.3}, {:.3}]", ratio.median, ratio.low, ratio.high);
        let mut table = Table::new([
            ("", Align::Left),
            ("B/A", Align::Right),
            ("over reference B/A", Align::Right),
            ("verdict", Align::Left),
            ("settings", Align::Left),
        ]);
        for effect in &self.effects {
            table.row([
                effect.what.name().to_owned(),
                ratio(&effect.time),
                effect
                    .of_reference
                    .as_ref()
                    .map_or_else(|| "–".into(), ratio),
                effect.verdict.to_string(),
                effect.settings.to_string(),
            ]);
        }
        write!(f, "{table}")?;
        writeln!(f, "{}", self.words())?;
        for (name, alone) in [("A", &self.only_a), ("B", &self.only_b)] {
            for settings in alone {
                writeln!(f, "only in {name}: {settings}")?;
            }
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{self, study};

    fn noise(round: u64, salt: u64) -> f64 {
        1.0 + ((round * 31 + salt) * 2_654_435_761 % 1000) as f64 / 20_000.0
    }

    #[test]
    fn an_effect_is_seen_with_its_interval_and_no_effect_is_none() {
        let a = study(61, |_, round| Some(1e6 * noise(round, 1)));
        let b = study(61, |settings, round| {
            let faster = settings.writer == "stream";
            Some(if faster { 0.8e6 } else { 1e6 } * noise(round, 9))
        });
        let compared = compare(&a, &b);
        assert_eq!(compared.effects.len(), 4);
        for effect in &compared.effects {
            if effect.settings.writer == "stream" {
                assert_eq!(effect.verdict, Verdict::Faster, "{effect:?}");
                assert!(
                    effect.time.low < 0.8 && effect.time.high > 0.8,
                    "{effect:?}"
                );
            } else {
                assert_ne!(effect.verdict, Verdict::Faster, "{effect:?}");
            }
        }
        assert!(
            compared
                .words()
                .starts_with("Of 4 figures that both have, B takes less in 2, "),
            "{}",
            compared.words()
        );
        let itself = compare(&a, &a);
        assert!(
            itself
                .effects
                .iter()
                .all(|effect| effect.verdict == Verdict::NoClearDifference)
        );
        assert!(itself.warnings.is_empty(), "{itself}");
    }

    #[test]
    fn a_faster_machine_is_told_from_faster_code() {
        let a = study(61, |_, round| Some(1e6 * noise(round, 1)));
        let b = study(61, |_, round| Some(0.5e6 * noise(round, 5)));
        let compared = compare(&a, &b);
        let of_limit = compared.effects[0].of_reference.unwrap();
        assert_eq!(compared.effects[0].verdict, Verdict::Faster);
        assert!((of_limit.median - 1.0).abs() < 0.05, "{of_limit:?}");
        assert!(
            compared.to_string().contains("go by `over reference`"),
            "{compared}"
        );
    }

    #[test]
    fn boots_are_compared_by_each_wait_and_against_their_own_eager_boot() {
        let a = synthetic::boots(61, |_, round| {
            [1e6, 4e6, 2e6].map(|ns| ns * noise(round, 1))
        });
        // all of B's machine is twice as slow, and its lazy boots are usable later than that
        let b = synthetic::boots(61, |settings, round| {
            let first = if settings.policy == "lazy" { 6e6 } else { 2e6 };
            [first, 8e6, 4e6].map(|ns| ns * noise(round, 9))
        });
        let compared = compare(&a, &b);
        assert_eq!(compared.effects.len(), 2 * 3, "two policies, three waits");
        for effect in &compared.effects {
            assert_eq!(effect.verdict, Verdict::Slower, "{effect:?}");
            let lazy = effect.settings.policy == "lazy";
            let later = lazy && effect.what == Measured::Boot(Wait::FirstUsable);
            let of_eager = effect.of_reference.unwrap();
            assert_eq!(of_eager.low > 1.5, later, "{effect:?}");
        }
        assert!(
            compared.to_string().contains("first usable  "),
            "{compared}"
        );
    }

    #[test]
    fn too_few_rounds_and_lonely_settings_are_told() {
        let a = study(20, |_, _| Some(1e6));
        let b = study(61, |settings, _| (settings.threads == 1).then_some(2e6));
        let compared = compare(&a, &b);
        assert!(
            compared
                .effects
                .iter()
                .all(|effect| effect.verdict == Verdict::NoVerdict)
        );
        assert!(
            compared.words().starts_with("No verdict on any of 2"),
            "{}",
            compared.words()
        );
        assert_eq!((compared.only_a.len(), compared.only_b.len()), (2, 0));
        assert!(
            compared.to_string().contains("only in A: 2 threads"),
            "{compared}"
        );
    }
}
