//! A study in a few sentences, none of which says more than the intervals do.
//!
//! One sentence for writers, one for threads and the limit, one for each other factor that was varied,
//! one for each policy that was booted by, and one for what it all rests on: rounds, drift, noise, what is missing. "Faster" stands only where
//! the interval of the paired ratio lies on one side of 1; below the rounds of a verdict nothing is
//! called faster at all.

use crate::analysis::{Against, Analysis, Cell};
use crate::judge::MIN_ROUNDS;
use crate::record::{Record, Role, Settings};
use crate::summary::writer_rank;

/// The sentences of a study on one host: three where writers and threads were varied, more where other
/// factors were too. The last one is what the others rest on.
pub fn words(records: &[Record]) -> Vec<String> {
    of(&Analysis::of(records))
}

/// As [`words`], of records that are gathered already.
pub fn of(analysis: &Analysis) -> Vec<String> {
    let mut sentences = Vec::new();
    let fastest = analysis
        .asked()
        .filter_map(|cell| Some((cell, cell.time()? / cell.pages.max(1) as f64)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    match fastest {
        Some((cell, _)) => {
            sentences.push(writers(analysis, cell));
            sentences.push(threads(analysis, cell));
            sentences.extend(
                FACTORS
                    .iter()
                    .filter_map(|factor| other(analysis, cell, factor)),
            );
            sentences.extend(matrix(analysis));
        }
        None if analysis.boots().next().is_some() => {}
        None => sentences.push("Nothing was measured: there is nothing to say.".to_owned()),
    }
    sentences.extend(crate::boots::words(analysis));
    sentences.push(basis(analysis));
    sentences
}

/// A factor beside writers and threads: its name and its value in settings.
type Factor = (&'static str, fn(&Settings) -> String);

const FACTORS: &[Factor] = &[
    ("placement", |settings| settings.placement.clone()),
    ("pages", |settings| settings.pages.clone()),
    ("scheduler", |settings| settings.scheduler.clone()),
    ("nodes", |settings| match settings.nodes.is_empty() {
        true => "all".to_owned(),
        false => {
            let nodes: Vec<String> = settings.nodes.iter().map(u64::to_string).collect();
            nodes.join("+")
        }
    }),
];

pub(crate) fn threads_of(settings: &Settings) -> String {
    match settings.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    }
}

/// Which writer is fastest where the fastest cell stands.
fn writers(analysis: &Analysis, best: &Cell) -> String {
    let mut rivals: Vec<&Cell> = analysis
        .asked()
        .filter(|cell| {
            let settings = Settings {
                writer: cell.settings.writer.clone(),
                ..best.settings.clone()
            };
            cell.memory == best.memory && cell.settings == settings && !std::ptr::eq(*cell, best)
        })
        .collect();
    rivals.sort_by_key(|rival| writer_rank(&rival.settings.writer));
    let name = &best.settings.writer;
    let on = threads_of(&best.settings);
    let took = took(best);
    let ratios: Vec<(&Cell, Against)> = rivals
        .into_iter()
        .filter_map(|rival| Some((rival, analysis.speed(best, rival)?)))
        .collect();
    let listed = |ratios: &[&(&Cell, Against)]| {
        let list: Vec<String> = ratios
            .iter()
            .map(|(rival, ratio)| format!("{ratio} x {}", rival.settings.writer))
            .collect();
        list.join(", ")
    };
    let all: Vec<&(&Cell, Against)> = ratios.iter().collect();
    let tied: Vec<&(&Cell, Against)> = ratios
        .iter()
        .filter(|(_, ratio)| !ratio.is_above())
        .collect();
    let judged = ratios
        .iter()
        .all(|(_, ratio)| matches!(ratio, Against::Judged(_)));
    match (ratios.is_empty(), judged, tied.is_empty()) {
        (true, ..) => format!("On {on} {name} took {took}."),
        (_, false, _) => format!(
            "On {on} {name} took {took}, and no verdict can be given of the other writers: its speed was \
             {}.",
            listed(&all)
        ),
        (_, true, true) => {
            format!(
                "On {on} {name} is the fastest writer: {took}, {} as fast.",
                listed(&all)
            )
        }
        (_, true, false) => {
            let sure: Vec<&(&Cell, Against)> = ratios
                .iter()
                .filter(|(_, ratio)| ratio.is_above())
                .collect();
            let sure = match sure.is_empty() {
                true => String::new(),
                false => format!("; it is {} as fast", listed(&sure)),
            };
            format!(
                "On {on} no writer is clearly the fastest: {name} took {took}, and its speed cannot be \
                 told from that of others ({}){sure}.",
                listed(&tied)
            )
        }
    }
}

/// How the fastest cell's settings scale, and how near the limit they are.
fn threads(analysis: &Analysis, best: &Cell) -> String {
    let family = |cell: &&Cell| {
        let settings = Settings {
            threads: cell.settings.threads,
            ..best.settings.clone()
        };
        cell.memory == best.memory && cell.settings == settings
    };
    let most = analysis
        .asked()
        .filter(family)
        .max_by_key(|cell| cell.settings.threads);
    let fewest = analysis
        .asked()
        .filter(family)
        .min_by_key(|cell| cell.settings.threads);
    let name = &best.settings.writer;
    let scaling = match (most, fewest) {
        (Some(most), Some(fewest)) if most.settings.threads > fewest.settings.threads => {
            let (many, few) = (threads_of(&most.settings), threads_of(&fewest.settings));
            let factor = most.settings.threads as f64 / fewest.settings.threads as f64;
            match analysis.speed(most, fewest) {
                Some(up @ Against::Judged(_)) if up.is_above() => Some(format!(
                    "{name} on {many} is {up} x as fast as on {few} ({:.0} % of {factor:.1} x)",
                    up.median() / factor * 100.0
                )),
                Some(up @ Against::Judged(_)) if up.is_below() => Some(format!(
                    "{name} on {many} is slower than on {few}: {up} x as fast"
                )),
                Some(up @ Against::Judged(_)) => Some(format!(
                    "more threads make no difference that could be told: {name} on {many} runs at {up} x \
                     its speed on {few}"
                )),
                Some(up @ Against::Indicated(_)) => Some(format!(
                    "{name} on {many} ran at {up} x its speed on {few} (no verdict)"
                )),
                None => Some(format!(
                    "{name} never ran on {many} and on {few} in one round"
                )),
            }
        }
        _ => None,
    };
    let limit = match analysis.of_limit(best) {
        Some(of @ Against::Judged(ratio)) if ratio.low >= 0.97 => Some(format!(
            "on {} it is at the limit of the memory ({of} of it)",
            threads_of(&best.settings)
        )),
        Some(of @ Against::Judged(_)) if of.is_below() => Some(format!(
            "on {} it stays below the limit of the memory ({of} of it)",
            threads_of(&best.settings)
        )),
        Some(of) => Some(format!(
            "on {} it ran at {of} of the limit of the memory",
            threads_of(&best.settings)
        )),
        None => None,
    };
    let parts: Vec<String> = [scaling, limit].into_iter().flatten().collect();
    match parts.is_empty() {
        true => "Neither threads nor a limit were measured.".to_owned(),
        false => capitalised(&format!("{}.", parts.join("; "))),
    }
}

/// What another factor makes of the fastest cell; `None` where it was not varied.
fn other(analysis: &Analysis, best: &Cell, (name, value): &Factor) -> Option<String> {
    let own = value(&best.settings);
    let rest = |settings: &Settings| {
        let mut settings = settings.clone();
        match *name {
            "placement" => settings.placement.clear(),
            "pages" => settings.pages.clear(),
            "scheduler" => settings.scheduler.clear(),
            _ => settings.nodes.clear(),
        }
        settings
    };
    let rivals: Vec<(String, Against)> = analysis
        .asked()
        .filter(|cell| {
            cell.memory == best.memory
                && value(&cell.settings) != own
                && rest(&cell.settings) == rest(&best.settings)
        })
        .filter_map(|cell| Some((value(&cell.settings), analysis.speed(best, cell)?)))
        .collect();
    if rivals.is_empty() {
        return None;
    }
    let parts: Vec<String> = rivals
        .iter()
        .map(|(theirs, ratio)| match ratio {
            Against::Judged(_) if ratio.is_above() => format!("faster than {theirs} ({ratio} x)"),
            Against::Judged(_) if ratio.is_below() => format!("slower than {theirs} ({ratio} x)"),
            Against::Judged(_) => format!("not to be told from {theirs} ({ratio} x)"),
            Against::Indicated(_) => format!("at {ratio} x the speed of {theirs} (no verdict)"),
        })
        .collect();
    Some(format!(
        "{} {own} ran {} ({}, {}).",
        capitalised(name),
        parts.join(", "),
        best.settings.writer,
        threads_of(&best.settings)
    ))
}

/// What memory of another node costs; `None` where there is no matrix of several nodes.
fn matrix(analysis: &Analysis) -> Option<String> {
    let cells: Vec<&Cell> = analysis
        .cells
        .iter()
        .filter(|cell| cell.role == Role::Matrix && !cell.times.is_empty())
        .collect();
    let local = |cell: &&&Cell| {
        let own = cell.settings.nodes.first().copied().unwrap_or_default();
        cell.settings.placement == format!("node:{own}")
    };
    let far = cells.iter().filter(|cell| !local(cell)).max_by(|a, b| {
        let time = |cell: &Cell| cell.time().unwrap_or(0.0);
        time(a).total_cmp(&time(b))
    })?;
    let near = cells
        .iter()
        .filter(local)
        .find(|cell| cell.settings.nodes == far.settings.nodes)?;
    let ratio = analysis.speed(near, far)?;
    let (node, memory) = (far.settings.nodes.first()?, &far.settings.placement);
    Some(match ratio {
        Against::Judged(_) if ratio.is_above() => format!(
            "Of all pairs of nodes threads of node {node} on memory of {memory} are the slowest: their \
             own memory is {ratio} x as fast."
        ),
        _ => format!(
            "No pair of nodes is clearly slower than local memory (at most {ratio} x, node {node} on \
             {memory})."
        ),
    })
}

/// What the other sentences rest on.
fn basis(analysis: &Analysis) -> String {
    let mut parts = Vec::new();
    let rounds = analysis.rounds as usize;
    parts.push(match rounds < MIN_ROUNDS {
        true => format!(
            "{rounds} {}: too few for a verdict, which takes {MIN_ROUNDS}",
            if rounds == 1 { "round" } else { "rounds" }
        ),
        false => format!("{rounds} rounds, 95 % intervals in brackets"),
    });
    if let (traced @ 1.., all) = analysis.traced {
        parts.push(format!(
            "{traced} of {all} runs were traced, which costs time: do not compare their times with those of \
             runs that were not"
        ));
    }
    match analysis.drift() {
        Some(drift) if drift.is_flagged() => parts.push(format!(
            "the machine drifted: the same run took {:.2} [{:.2}, {:.2}] x as long in the last third as in \
             the first, so compare ratios and not times",
            drift.ratio.median, drift.ratio.low, drift.ratio.high
        )),
        Some(_) => parts.push("no drift".to_owned()),
        None => {}
    }
    if let Some((cell, spread)) = analysis.noisy().first() {
        let what = match cell.role.is_boot() {
            true => format!(
                "the {} boots with {}",
                cell.settings.policy, cell.settings.writer
            ),
            false => format!("the runs of {}", cell.settings.writer),
        };
        parts.push(format!(
            "the machine was noisy: half of {what} on {} differ by {:.0} % or more, so trust no smaller \
             difference of times",
            threads_of(&cell.settings),
            spread * 100.0
        ));
    }
    let missing = analysis.missing();
    if let Some(first) = missing.first() {
        let refused = first
            .refused
            .as_ref()
            .map_or_else(String::new, |why| format!(": {why}"));
        parts.push(format!(
            "of {} of {} kinds of runs some are missing (first: {}, {} of {rounds} rounds{refused})",
            missing.len(),
            analysis.cells.len(),
            first.settings,
            first.rounds,
        ));
    }
    format!("This rests on {}.", parts.join("; "))
}

fn took(cell: &Cell) -> String {
    match cell.time() {
        Some(time) => format!(
            "{:.2} ms ({:.1} GB/s)",
            time / 1e6,
            cell.bytes as f64 / time
        ),
        None => "an unknown time".to_owned(),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        // names of writers stay as they are
        Some(_)
            if ["memset", "zero", "template", "stream", "auto"]
                .iter()
                .any(|name| text.starts_with(name)) =>
        {
            text.to_owned()
        }
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::study;

    /// ± 2 %, different for every cell and round, the same each time.
    fn wobble(settings: &Settings, round: u64) -> f64 {
        let seed = settings.writer.len() as u64 * 7 + settings.threads * 13 + round * 31;
        1.0 + ((seed * 2_654_435_761) % 1000) as f64 / 25_000.0
    }

    fn said(rounds: u64, time: impl Fn(&Settings, u64) -> Option<f64>) -> String {
        words(&study(rounds, time)).join("\n")
    }

    fn clear(settings: &Settings, round: u64) -> f64 {
        let writer = if settings.writer == "zero" { 2e6 } else { 1e6 };
        writer / settings.threads as f64 * wobble(settings, round)
    }

    #[test]
    fn a_clear_difference_is_claimed_with_its_interval() {
        let said = said(61, |settings, round| Some(clear(settings, round)));
        assert_eq!(said.lines().count(), 3, "{said}");
        assert!(said.contains("stream is the fastest writer"), "{said}");
        assert!(said.contains("stream on 2 threads is"), "{said}");
        assert!(said.contains("x as fast as on 1 thread"), "{said}");
        assert!(said.contains("61 rounds, 95 % intervals"), "{said}");
        assert!(
            said.contains("no drift") && !said.contains("noisy"),
            "{said}"
        );
    }

    #[test]
    fn no_difference_is_not_claimed_to_be_one() {
        let said = said(61, |settings, round| Some(1e6 * wobble(settings, round)));
        assert!(said.contains("no writer is clearly the fastest"), "{said}");
        assert!(
            !said.contains("is the fastest") && !said.contains("is slower"),
            "{said}"
        );
    }

    #[test]
    fn too_few_rounds_claim_nothing() {
        let said = said(60, |settings, round| Some(clear(settings, round)));
        for claim in [
            "is the fastest",
            "as fast as on",
            "is slower",
            "at the limit",
        ] {
            assert!(!said.contains(claim), "{claim}: {said}");
        }
        assert!(said.contains("too few for a verdict"), "{said}");
    }

    #[test]
    fn drift_is_told_and_changes_no_verdict() {
        let said = said(61, |settings, round| {
            Some(clear(settings, round) * (1.0 + round as f64 / 40.0))
        });
        assert!(said.contains("the machine drifted"), "{said}");
        assert!(said.contains("stream is the fastest writer"), "{said}");
    }

    #[test]
    fn one_outlier_changes_no_word() {
        let calm = said(61, |settings, round| Some(clear(settings, round)));
        let wild = said(61, |settings, round| {
            let hit = round == 30 && settings.writer == "stream" && settings.threads == 2;
            Some(clear(settings, round) * if hit { 1000.0 } else { 1.0 })
        });
        let verdicts = |said: &str| {
            let words = said.split(|c: char| c.is_ascii_digit() || " .[],".contains(c));
            words
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&calm), verdicts(&wild), "{calm}\n{wild}");
    }

    #[test]
    fn missing_cells_are_told_and_nothing_is_said_of_them() {
        let said = said(61, |settings, round| {
            let gone = settings.writer == "zero" && settings.threads == 2;
            (!gone).then(|| clear(settings, round))
        });
        assert!(!said.contains("x zero"), "{said}");
        // a cell that began and then stopped is short of rounds
        let stopped = super::tests::said(61, |settings, round| {
            let gone = settings.writer == "zero" && settings.threads == 2 && round > 20;
            (!gone).then(|| clear(settings, round))
        });
        assert!(stopped.contains("some are missing"), "{stopped}");
        assert!(stopped.contains("no verdict can be given"), "{stopped}");
        let nothing = words(&[]).join("\n");
        assert!(nothing.contains("Nothing was measured"), "{nothing}");
    }

    #[test]
    fn traced_runs_are_told() {
        let mut records = study(61, |_, _| Some(1e6));
        let rests_on = |records: &[Record]| words(records).pop().unwrap();
        assert!(!rests_on(&records).contains("traced"));
        for record in &mut records[7..] {
            record.traced = true;
        }
        let said = rests_on(&records);
        assert!(said.contains("420 of 427 runs were traced"), "{said}");
    }
}
