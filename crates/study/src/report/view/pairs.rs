//! Two studies of a report against each other: effects with their intervals.
//!
//! The first study or host of the report is A, every other one is B. Their runs are no pairs, so both
//! sides are resampled ([`crate::compare`]).

use super::HostRecords;
use crate::compare::{Effect, Verdict, compare};
use crate::judge::Ratio;

/// A study beside the first one.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Pair {
    pub(in crate::report) a: String,
    pub(in crate::report) b: String,
    pub(in crate::report) words: String,
    pub(in crate::report) warnings: Vec<String>,
    pub(in crate::report) effects: Vec<EffectRow>,
    /// Settings that one side lacks.
    pub(in crate::report) alone: Vec<String>,
}

/// A figure that both have.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct EffectRow {
    pub(in crate::report) what: &'static str,
    pub(in crate::report) settings: String,
    /// Time of B over that of A.
    pub(in crate::report) ratio: Ratio,
    /// The same over each side's limit or eager boot.
    pub(in crate::report) of_reference: Option<Ratio>,
    pub(in crate::report) verdict: String,
    /// Whether the interval may be shown: with fewer rounds than a verdict takes it is no 95 % one.
    pub(in crate::report) judged: bool,
}

/// `b` against `a`.
pub(super) fn one(a: &HostRecords<'_>, b: &HostRecords<'_>) -> Pair {
    let compared = compare(&a.records, &b.records);
    let alone = [(&a.name, &compared.only_a), (&b.name, &compared.only_b)];
    Pair {
        a: a.name.clone(),
        b: b.name.clone(),
        words: compared.words(),
        alone: alone
            .into_iter()
            .flat_map(|(name, all)| all.iter().map(move |one| format!("only in {name}: {one}")))
            .collect(),
        effects: compared.effects.iter().map(row).collect(),
        warnings: compared.warnings,
    }
}

fn row(effect: &Effect) -> EffectRow {
    EffectRow {
        what: effect.what.name(),
        settings: effect.settings.to_string(),
        ratio: effect.time,
        of_reference: effect.of_reference,
        verdict: effect.verdict.to_string(),
        judged: effect.verdict != Verdict::NoVerdict,
    }
}

#[cfg(test)]
mod tests {
    use crate::record::Record;
    use crate::report::{Options, Report};
    use crate::synthetic;

    fn noise(round: u64, salt: u64) -> f64 {
        1.0 + ((round * 31 + salt) * 2_654_435_761 % 1000) as f64 / 20_000.0
    }

    fn page(records: &[Record]) -> String {
        Report::of(records, &Options::default())
            .unwrap()
            .html()
            .unwrap()
    }

    #[test]
    fn a_study_before_and_after_a_change_is_two_with_an_effect_and_its_interval() {
        let a = synthetic::study(61, |_, round| Some(1e6 * noise(round, 1)));
        let mut b = synthetic::study(61, |settings, round| {
            let after = if settings.writer == "stream" {
                0.5e6
            } else {
                1e6
            };
            Some(after * noise(round, 9))
        });
        for record in &mut b {
            record.began_ms += 1_000_000;
        }
        let both = page(&[a.clone(), b].concat());
        assert!(both.contains("made-up (made-up) #2 against made-up (made-up) #1"));
        assert!(both.contains("Of 4 figures that both have, B takes less in 2, more in"));
        assert!(both.contains("B takes less</td>"));
        let twice = page(&[a.clone(), a].concat());
        assert!(
            !twice.contains("against made-up"),
            "a file that was given twice"
        );
    }

    #[test]
    fn too_few_rounds_show_no_interval() {
        let a = synthetic::study(20, |_, round| Some(1e6 * noise(round, 1)));
        let mut b = a.clone();
        for record in &mut b {
            record.host.name = "other".into();
            record.write_ns *= 2;
        }
        let page = page(&[a, b].concat());
        assert!(page.contains("No verdict on any of 4 figures"), "{page}");
        assert!(page.contains("data-figure=\"effect\" data-series=\"time\" data-value=\"2"));
        assert!(!page.contains("B takes more</td>"));
    }
}
