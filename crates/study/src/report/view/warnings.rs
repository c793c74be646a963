//! What readers must know before they believe the figures of a host.

use super::figures::Group;
use super::host::{bytes, count};
use crate::analysis::Analysis;
use crate::record::Record;

/// A sentence each.
pub(super) fn warnings(
    host: &str,
    records: &[Record],
    analysis: &Analysis,
    groups: &[Group],
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(drift) = analysis.drift().filter(|drift| drift.is_flagged()) {
        let ratio = drift.ratio;
        warnings.push(format!(
            "the machine drifted: the same run took {:.2} [{:.2}, {:.2}] times as long in the last third of the \
             study as in the first; ratios within rounds cancel that, times and rates do not",
            ratio.median, ratio.low, ratio.high
        ));
    }
    let noisy: Vec<String> = analysis
        .noisy()
        .into_iter()
        .map(|(cell, spread)| format!("{} ({:.0} %)", cell.settings, spread * 100.0))
        .collect();
    if !noisy.is_empty() {
        warnings.push(format!(
            "noisy: half of the runs of {} differ by more than that among themselves; trust no smaller \
             difference of times",
            some(&noisy)
        ));
    }
    let missing: Vec<String> = analysis
        .missing()
        .into_iter()
        .map(|missing| match missing.refused {
            Some(why) => format!("{} (refused: {why})", missing.settings),
            None => format!(
                "{} (in {} of {} rounds)",
                missing.settings, missing.rounds, analysis.rounds
            ),
        })
        .collect();
    if !missing.is_empty() {
        warnings.push(format!(
            "runs are missing: {}; ratios rest on the rounds that both sides have",
            some(&missing)
        ));
    }
    let outliers: usize = groups
        .iter()
        .flat_map(|group| &group.rows)
        .map(|row| row.outliers)
        .sum();
    let runs: usize = groups
        .iter()
        .flat_map(|group| &group.rows)
        .map(|row| row.runs)
        .sum();
    if outliers > 0 {
        warnings.push(format!(
            "{} of {} lie far outside of the quartiles of their like; medians pass over them",
            outliers,
            count(runs as u64, "run"),
        ));
    }
    warnings.extend(cached(records));
    warnings
        .into_iter()
        .map(|text| format!("{host}: {text}"))
        .collect()
}

/// Three of them, and how many more.
fn some(names: &[String]) -> String {
    match names.len() {
        0..=3 => names.join("; "),
        more => format!("{}; and {} others", names[..3].join("; "), more - 3),
    }
}

/// A memory map that fits in a cache in part.
fn cached(records: &[Record]) -> Option<String> {
    let record = records.iter().find(|record| record.host.cache > 0)?;
    let least = records.iter().map(Record::bytes).min()?;
    (least < record.host.cache.saturating_mul(8)).then(|| {
        format!(
            "the struct pages ({}) are less than 8 times the last-level cache ({}): rates are in part the \
             cache's",
            bytes(least),
            bytes(record.host.cache)
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::record::{Record, Settings};
    use crate::report::{Options, Report};
    use crate::synthetic;

    fn warned(change: impl Fn(&mut Vec<Record>), time: impl Fn(&Settings, u64) -> f64) -> String {
        let mut records = synthetic::study(61, |settings, round| Some(time(settings, round)));
        change(&mut records);
        let report = Report::of(&records, &Options::default()).unwrap();
        report.warnings().join("\n")
    }

    /// ± 1 %, different for every writer, number of threads and round.
    fn steady(settings: &Settings, round: u64) -> f64 {
        let mut mixed = (round << 16) + (settings.threads << 8) + settings.writer.len() as u64;
        for _ in 0..3 {
            mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        4e6 * (1.0 + ((mixed >> 40) as f64 / f64::from(1 << 24) - 0.5) * 0.02)
    }

    #[test]
    fn a_calm_study_is_warned_of_for_its_size_alone() {
        let small = |records: &mut Vec<Record>| records.truncate(61 * 7);
        assert_eq!(warned(small, steady), "");
        let cached = |records: &mut Vec<Record>| {
            for record in records {
                record.host.cache = 300 << 20;
            }
        };
        assert_eq!(
            warned(cached, steady),
            "made-up: the struct pages (8 MiB) are less than 8 times the last-level cache (300 MiB): rates are \
             in part the cache's"
        );
    }

    #[test]
    fn drift_noise_outliers_and_gaps_are_each_told() {
        let drifting =
            |settings: &Settings, round: u64| steady(settings, round) * (1.0 + round as f64 / 61.0);
        assert!(warned(|_| {}, drifting).contains("the machine drifted"));
        let noisy = |settings: &Settings, round: u64| {
            let wild = settings.writer == "stream" && round.is_multiple_of(2);
            steady(settings, round) * if wild { 1.5 } else { 1.0 }
        };
        assert!(warned(|_| {}, noisy).contains("noisy: half of the runs of"));
        let far = |settings: &Settings, round: u64| {
            let hit = (settings.writer.as_str(), settings.threads, round) == ("zero", 1, 30);
            steady(settings, round) * if hit { 40.0 } else { 1.0 }
        };
        assert!(warned(|_| {}, far).contains("1 of 366 runs lie far outside"));
        let short = |records: &mut Vec<Record>| {
            records.retain(|record| record.settings.writer != "stream" || record.round < 50);
        };
        assert!(warned(short, steady).contains("(in 11 of 61 rounds)"));
    }
}
