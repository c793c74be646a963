//! What a sweep tells a person.

use std::io::{self, Write};

use examples::front::count;
use examples::keep::Keep;
use machine::{FigureKind, MachineLayout};
use study::analysis::Analysis;
use study::judge::MIN_ROUNDS;
use study::run::Ended;
use study::summary::Summary;

/// The table and what goes with it.
pub(crate) fn result(
    out: &mut impl Write,
    layout: &MachineLayout,
    keep: &Keep,
    analysis: &Analysis,
    ended: Ended,
) -> io::Result<()> {
    let summary = Summary::of(analysis);
    let most = keep
        .records
        .iter()
        .map(|record| record.settings.threads)
        .max();
    writeln!(
        out,
        "host:   {}; limit {}",
        count(most.unwrap_or(0), "worker"),
        analysis.fill.as_deref().unwrap_or("not measured")
    )?;
    if let Some(record) = keep.records.first() {
        let sampled: u64 = record.placed.iter().map(|placed| placed.pages).sum();
        let own = record
            .placed
            .iter()
            .filter(|placed| placed.node == placed.on);
        let own: u64 = own.map(|placed| placed.pages).sum();
        let placed = match sampled {
            0 => "placement unknown".to_owned(),
            _ => format!(
                "placed {:.1} % on its node",
                own as f64 / sampled as f64 * 100.0
            ),
        };
        writeln!(
            out,
            "        first touch {:.1} ms; {placed}",
            record.fault_ns as f64 / 1e6
        )?;
    }
    if summary.rows.is_empty() {
        writeln!(out, "nothing was measured: there is nothing to show")?;
    } else {
        write!(out, "\n{}\n", summary.table())?;
        writeln!(out, "{}", basis(&summary, ended))?;
    }
    for figure in layout.figures.iter() {
        if let FigureKind::DeferredInit { .. } = figure.kind {
            writeln!(out, "its own kernel: {}", figure.at.text)?;
        }
    }
    writeln!(out, "records: {}", keep.path().display())
}

/// What the ratios rest on.
fn basis(summary: &Summary, ended: Ended) -> String {
    let rounds = count(summary.rounds, "round");
    let basis = if summary.rounds < MIN_ROUNDS as u64 {
        format!(
            "{rounds} of {}: ratios are indications (~); a verdict takes {MIN_ROUNDS} \
             (--rounds {MIN_ROUNDS})",
            ended.rounds,
        )
    } else {
        format!("{rounds}; ratios with their 95 % intervals")
    };
    format!(
        "{basis}\nspeed-up (over the fewest threads) and of limit are medians of ratios within a \
         round; times are medians of all rounds"
    )
}
