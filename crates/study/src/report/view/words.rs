//! What may be said in words, and what must be said beside it.
//!
//! A sentence claims that one thing is faster than another only where the interval of their ratio,
//! within rounds, lies clear of what identical code differs by. Where there are too few rounds for
//! intervals, sentences name medians and say that they are no verdicts.

use super::figures::{Contestant, Figure, Group, best, speed};
use super::host::count;
use crate::judge::MIN_ROUNDS;
use crate::record::{Record, Role};
use crate::stats;

/// Identical code differs by as much from run to run.
const SAME: f64 = 1.02;

/// A distance of quartiles above which half of the runs differ too much for small claims.
const NOISY: f64 = 0.25;

/// A change of the reference over a study that readers must know of.
const DRIFT: f64 = 1.10;

/// Three lines: who is fastest, how it scales, and how near it is to what memory takes.
pub(super) fn summary(host: &str, group: &Group, contestants: &[Contestant<'_>]) -> Vec<String> {
    let Some(best) = best(contestants) else {
        return vec![format!(
            "{host}: no run of a writer was recorded, so there is nothing to say."
        )];
    };
    vec![
        fastest(host, group, best, contestants),
        scaling(group, best, contestants),
        limit(group, best, contestants),
    ]
}

fn interval(figure: Figure) -> String {
    match figure.interval {
        Some((low, high)) => format!("{:.2} [{low:.2}, {high:.2}]", figure.value),
        None => format!("about {:.2}", figure.value),
    }
}

fn fastest(host: &str, group: &Group, best: &Contestant<'_>, all: &[Contestant<'_>]) -> String {
    let threads = count(best.threads, "thread");
    let row = group.row(best);
    let figures = row.map_or_else(String::new, |row| {
        format!("{:.2} ms, {:.1} GB/s", row.time.value, row.rate)
    });
    // how many times as long another takes, with its interval
    let mut others: Vec<(&Contestant<'_>, Figure)> = all
        .iter()
        .filter(|other| {
            other.threads == best.threads && !other.limit && other.series != best.series
        })
        .filter_map(|other| Some((other, speed(best, other)?)))
        .collect();
    others.sort_by(|one, other| one.1.value.total_cmp(&other.1.value));
    if others.is_empty() {
        return format!(
            "{host}: {} with {threads} takes {figures}; no other writer was run.",
            best.series
        );
    }
    if best.times.len() < MIN_ROUNDS {
        return format!(
            "{host}: with {threads} {} has the smallest median, {figures}; {} support no verdict \
             ({MIN_ROUNDS} do).",
            best.series,
            count(best.times.len() as u64, "round"),
        );
    }
    let behind = |figure: &Figure| figure.interval.is_some_and(|(low, _)| low > SAME);
    let level: Vec<&str> = others
        .iter()
        .filter(|(_, figure)| !behind(figure))
        .map(|(other, _)| other.series.as_str())
        .collect();
    let next = others.iter().find(|(_, figure)| behind(figure));
    let next = next.map_or_else(String::new, |(other, figure)| {
        format!(
            "; {}, the next, takes {} times as long",
            other.series,
            interval(*figure)
        )
    });
    match level.is_empty() {
        true => format!(
            "{host}: {} is the fastest writer with {threads}: {figures}{next}.",
            best.series
        ),
        false => format!(
            "{host}: with {threads} {} takes {figures}, and {} cannot be told from it{next}.",
            best.series,
            level.join(", ")
        ),
    }
}

fn scaling(group: &Group, best: &Contestant<'_>, all: &[Contestant<'_>]) -> String {
    let mut own: Vec<&Contestant<'_>> = all
        .iter()
        .filter(|other| other.series == best.series && !other.limit)
        .collect();
    own.sort_by_key(|contestant| contestant.threads);
    let (Some(first), Some(last)) = (own.first(), own.last()) else {
        return String::new();
    };
    let gain = group
        .row(last)
        .and_then(|row| Some((row.speed_up?, row.efficiency?)));
    let (Some((speed_up, efficiency)), true) = (gain, first.threads < last.threads) else {
        return format!(
            "{} ran with {} alone, so nothing is said of scaling.",
            best.series,
            count(last.threads, "thread")
        );
    };
    let mut text = format!(
        "From {} to {} threads {} becomes {} times as fast, {:.0} % of ideal",
        first.threads,
        last.threads,
        best.series,
        interval(speed_up),
        efficiency * 100.0
    );
    if speed_up.interval.is_none() {
        text.push_str(" by medians alone");
    }
    // the fewest threads from which on nothing is gained that can be shown
    let enough = own.iter().find(|fewer| {
        let gain = speed(last, fewer);
        gain.and_then(|gain| gain.interval)
            .is_some_and(|(_, high)| high < SAME)
    });
    if let Some(enough) = enough.filter(|enough| enough.threads < last.threads) {
        text.push_str(&format!(
            "; beyond {} nothing is gained",
            count(enough.threads, "thread")
        ));
    }
    text + "."
}

fn limit(group: &Group, best: &Contestant<'_>, all: &[Contestant<'_>]) -> String {
    let fill = all
        .iter()
        .find(|other| other.limit && other.threads == best.threads)
        .and_then(|limit| limit.example.fill.as_deref());
    let fill = fill.map_or_else(String::new, |fill| format!(" ({fill})"));
    let Some(of_limit) = group.row(best).and_then(|row| row.of_limit) else {
        return "How near that is to what memory takes is not known: no limit was run with as many threads."
            .to_owned();
    };
    let verdict = match of_limit.interval {
        None => "an indication",
        Some((low, high)) if low > 1.0 / SAME && high < SAME => {
            "as fast as it, as far as can be told"
        }
        Some((low, _)) if low > SAME => "faster than it, as where the memory map fits in a cache",
        Some((_, high)) if high < 1.0 / SAME => "there is room below the limit",
        Some(_) => "not clearly apart from it",
    };
    format!(
        "That is {} of the streaming limit{fill}: {verdict}.",
        interval(of_limit)
    )
}

/// What readers must know before they believe the figures of a host.
pub(super) fn warnings(
    host: &str,
    records: &[&Record],
    groups: &[(Group, Vec<Contestant<'_>>)],
) -> Vec<String> {
    let mut warnings = Vec::new();
    let refused = records.iter().filter(|record| record.refused.is_some());
    if let Some(first) = refused.clone().next() {
        warnings.push(format!(
            "{host}: the system refused {}; the first ({}): {}",
            count(refused.count() as u64, "run"),
            first.settings,
            first.refused.as_deref().unwrap_or_default()
        ));
    }
    for (group, contestants) in groups {
        if let Some(text) = missing(contestants) {
            warnings.push(format!("{host}: {text}"));
        }
        let noisy: Vec<String> = group
            .rows
            .iter()
            .filter(|row| row.spread.is_some_and(|spread| spread > NOISY))
            .map(|row| format!("{} with {}", row.series, count(row.threads, "thread")))
            .collect();
        if !noisy.is_empty() {
            warnings.push(format!(
                "{host}: too noisy for small differences: the quartiles of {} lie more than {:.0} % apart",
                some(&noisy),
                NOISY * 100.0
            ));
        }
        let outliers: usize = group.rows.iter().map(|row| row.outliers).sum();
        let runs: usize = group.rows.iter().map(|row| row.runs).sum();
        if outliers > 0 {
            warnings.push(format!(
                "{host}: {outliers} of {runs} runs are outliers (more than three quartile distances away); \
                 medians pass over them"
            ));
        }
    }
    warnings.extend(drift(host, records));
    warnings.extend(cached(host, records));
    warnings
}

/// Three of them, and how many more.
fn some(names: &[String]) -> String {
    match names.len() {
        0..=3 => names.join(", "),
        more => format!("{} and {} others", names[..3].join(", "), more - 3),
    }
}

/// Contestants that lack rounds.
fn missing(contestants: &[Contestant<'_>]) -> Option<String> {
    let most = contestants
        .iter()
        .map(|contestant| contestant.times.len())
        .max()?;
    let short: Vec<String> = contestants
        .iter()
        .filter(|contestant| contestant.times.len() < most)
        .map(|contestant| {
            format!(
                "{} with {} ({} of {most})",
                contestant.series,
                count(contestant.threads, "thread"),
                contestant.times.len()
            )
        })
        .collect();
    (!short.is_empty()).then(|| {
        format!(
            "rounds are missing for {}; ratios rest on the rounds that both sides have",
            some(&short)
        )
    })
}

/// How the reference, or the limit with the fewest threads, changed over the study.
fn drift(host: &str, records: &[&Record]) -> Option<String> {
    let of = |role: Role| {
        let own = || {
            records
                .iter()
                .filter(|record| record.role == role && record.write_ns > 0)
        };
        let first = own().min_by_key(|record| record.settings.threads)?;
        let kind = |record: &Record| (record.settings.clone(), record.layout.memory);
        let mut times: Vec<(u64, f64)> = own()
            .filter(|record| kind(record) == kind(first))
            .map(|record| (record.round, record.write_ns as f64))
            .collect();
        times.sort_by_key(|time| time.0);
        (times.len() >= 12).then_some(times)
    };
    let times = of(Role::Reference).or_else(|| of(Role::Limit))?;
    let quarter = times.len() / 4;
    let medians: Vec<f64> = times
        .chunks_exact(quarter)
        .filter_map(|part| stats::median(&part.iter().map(|time| time.1).collect::<Vec<_>>()))
        .collect();
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let most = medians.iter().copied().fold(0.0, f64::max);
    (most / least > DRIFT).then(|| {
        format!(
            "{host}: the machine drifted: the same run took up to {:.0} % longer in one part of the study \
             than in another; ratios within rounds cancel that, times and rates do not",
            (most / least - 1.0) * 100.0
        )
    })
}

/// A memory map that fits in a cache in part.
fn cached(host: &str, records: &[&Record]) -> Option<String> {
    let record = records.iter().find(|record| record.host.cache > 0)?;
    let least = records.iter().map(|record| record.bytes()).min()?;
    (least < 8 * record.host.cache).then(|| {
        format!(
            "{host}: the struct pages ({}) are less than 8 times the last-level cache ({}): rates are in part \
             the cache's",
            super::host::bytes(least),
            super::host::bytes(record.host.cache)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::View;
    use crate::record::{Record, Settings};
    use crate::report::Options;
    use crate::synthetic;

    /// The summary and warnings of made-up records; a time may be left out.
    fn said(
        rounds: u64,
        time: impl Fn(&Settings, u64) -> Option<f64>,
    ) -> (Vec<String>, Vec<String>) {
        said_of(&synthetic::study(rounds, time))
    }

    fn said_of(records: &[Record]) -> (Vec<String>, Vec<String>) {
        let view = View::of(records, &Options::default());
        assert_eq!(view.summary.len(), 3, "{:?}", view.summary);
        (view.summary, view.warnings)
    }

    /// ± 1 %, different for every writer, number of threads and round.
    fn jitter(settings: &Settings, round: u64) -> f64 {
        let writer = settings.writer.len() as u64;
        let mut mixed = (round << 16) + (settings.threads << 8) + writer;
        for _ in 0..3 {
            mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        1.0 + ((mixed >> 40) as f64 / (1 << 24) as f64 - 0.5) * 0.02
    }

    fn clear(settings: &Settings, round: u64) -> Option<f64> {
        let one = match settings.writer.as_str() {
            "zero" => 8e6,
            "stream" => 4e6,
            _ => 3.9e6,
        };
        Some(one / settings.threads as f64 * jitter(settings, round))
    }

    #[test]
    fn a_clear_difference_is_claimed_with_its_interval() {
        let (summary, warnings) = said(61, clear);
        assert!(
            summary[0].contains("stream is the fastest writer with 2 threads"),
            "{summary:?}"
        );
        assert!(summary[0].contains("zero, the next, takes "), "{summary:?}");
        assert!(
            summary[1].starts_with("From 1 to 2 threads stream becomes "),
            "{summary:?}"
        );
        assert!(summary[1].contains("100 % of ideal"), "{summary:?}");
        assert!(
            summary[2].contains("of the streaming limit (stream-constant)"),
            "{summary:?}"
        );
        assert!(
            !warnings.iter().any(|warning| warning.contains("drifted")),
            "{warnings:?}"
        );
    }

    #[test]
    fn no_difference_is_not_claimed() {
        let (summary, _) = said(61, |settings, round| {
            Some(4e6 / settings.threads as f64 * jitter(settings, round))
        });
        assert!(summary[0].contains("cannot be told from it"), "{summary:?}");
        assert!(!summary[0].contains("fastest"), "{summary:?}");
        assert!(
            summary[2].contains("as fast as it, as far as can be told"),
            "{summary:?}"
        );
    }

    #[test]
    fn a_difference_in_too_few_rounds_is_an_indication() {
        let (summary, _) = said(20, clear);
        assert!(
            summary[0].contains("20 rounds support no verdict"),
            "{summary:?}"
        );
        assert!(!summary[0].contains("fastest"), "{summary:?}");
        assert!(summary[1].contains("by medians alone"), "{summary:?}");
        assert!(summary[2].contains("an indication"), "{summary:?}");
    }

    #[test]
    fn drift_that_hits_all_alike_changes_no_verdict_and_is_told() {
        let drifting = |settings: &Settings, round: u64| {
            Some(
                4e6 / settings.threads as f64
                    * jitter(settings, round)
                    * (1.0 + round as f64 / 61.0),
            )
        };
        let (summary, warnings) = said(61, drifting);
        assert!(summary[0].contains("cannot be told from it"), "{summary:?}");
        assert!(
            warnings
                .iter()
                .any(|warning| warning.contains("the machine drifted")),
            "{warnings:?}"
        );
    }

    #[test]
    fn one_outlier_moves_nothing_and_is_counted() {
        let (with, warnings) = said(61, |settings, round| {
            let far = if (settings.writer.as_str(), settings.threads, round) == ("zero", 2, 30) {
                50.0
            } else {
                1.0
            };
            Some(4e6 / settings.threads as f64 * jitter(settings, round) * far)
        });
        assert!(with[0].contains("cannot be told from it"), "{with:?}");
        assert!(
            warnings
                .iter()
                .any(|warning| warning.contains("1 of 366 runs are outliers")),
            "{warnings:?}"
        );
    }

    #[test]
    fn missing_cells_are_named_and_nothing_is_said_of_them() {
        let (summary, warnings) = said(61, |settings, round| {
            let here = match (settings.writer.as_str(), settings.threads) {
                ("limit", 2) => false,
                ("zero", 1) => round < 40,
                _ => true,
            };
            clear(settings, round).filter(|_| here)
        });
        assert!(summary[2].contains("not known"), "{summary:?}");
        assert!(
            warnings
                .iter()
                .any(|warning| warning.contains("zero with 1 thread (40 of 61)")),
            "{warnings:?}"
        );
        let (summary, _) = said(61, |settings, round| {
            clear(settings, round).filter(|_| settings.threads == 2)
        });
        assert!(
            summary[1].contains("nothing is said of scaling"),
            "{summary:?}"
        );
    }

    #[test]
    fn noise_forbids_claims_and_is_told() {
        let (summary, warnings) = said(61, |settings, round| {
            let noise = 1.0 + 0.8 * ((jitter(settings, round) - 1.0) * 100.0).abs();
            Some(
                4e6 / settings.threads as f64
                    * noise
                    * if settings.writer == "zero" { 1.05 } else { 1.0 },
            )
        });
        assert!(!summary[0].contains("fastest"), "{summary:?}");
        assert!(
            warnings.iter().any(|warning| warning.contains("too noisy")),
            "{warnings:?}"
        );
    }
}
