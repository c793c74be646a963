//! Which worker wrote which sections when.

use std::cmp::Reverse;

use super::super::plot::timeline::{Bar, thin};
use super::host::count;
use crate::record::{Record, Role};

/// At most so many bars on a page: more cannot be told apart, and make it slow.
const BARS: usize = 1500;

/// The work of one run.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Work {
    pub(in crate::report) title: String,
    pub(in crate::report) note: String,
    /// Names of workers.
    pub(in crate::report) rows: Vec<String>,
    /// What each colour stands for.
    pub(in crate::report) shades: Vec<String>,
    pub(in crate::report) bars: Vec<Bar>,
}

impl Work {
    /// Of the fastest run with the most workers among those that say when sections were written.
    pub(super) fn of(records: &[Record], host: &str) -> Option<Self> {
        let recorded = records.iter().filter(|record| {
            record.role == Role::Cell && record.refused.is_none() && !record.sections.is_empty()
        });
        let shown =
            recorded.min_by_key(|record| (Reverse(record.settings.threads), record.write_ns))?;
        Some(Self::one(shown, host))
    }

    fn one(record: &Record, host: &str) -> Self {
        let rows: Vec<String> = record
            .workers
            .iter()
            .map(|worker| format!("{} (CPU {})", worker.name, worker.cpu))
            .collect();
        // sections are numbered through the nodes' memory, so the node of a piece of work is not
        // in the record where nodes interleave; workers are, and they serve a node each
        let mut homes: Vec<&str> = Vec::new();
        let shade_of: Vec<usize> = record
            .workers
            .iter()
            .map(|worker| {
                let home = home(&worker.name);
                homes
                    .iter()
                    .position(|other| *other == home)
                    .unwrap_or_else(|| {
                        homes.push(home);
                        homes.len() - 1
                    })
            })
            .collect();
        let pieces: Vec<Bar> = record
            .sections
            .iter()
            .filter_map(|piece| {
                let row = usize::try_from(piece.worker).ok()?;
                Some(Bar {
                    row,
                    shade: *shade_of.get(row)?,
                    begin: piece.begin_ns,
                    end: piece.begin_ns.saturating_add(piece.ns),
                    section: piece.section,
                    sections: piece.count,
                })
            })
            .collect();
        let most = pieces.iter().map(|piece| piece.sections).max().unwrap_or(1);
        let piece = match most {
            1 => "a section".to_owned(),
            _ => format!("up to {most} sections, which were written in one go"),
        };
        let before = pieces.len();
        let bars = thin(pieces, BARS);
        let mut note = format!(
            "{}; each bar is {piece}, gaps are time between them",
            record.settings
        );
        if bars.len() < before {
            note.push_str(&format!(
                "; {before} of them are drawn as {} bars, neighbours as one",
                bars.len()
            ));
        }
        Self {
            title: format!(
                "{host}: {}, {}, round {}",
                record.settings.writer,
                count(record.settings.threads, "thread"),
                record.round + 1
            ),
            note,
            rows,
            shades: homes
                .iter()
                .map(|home| format!("workers of {home}"))
                .collect(),
            bars,
        }
    }
}

/// The node in the name of a worker, or all of the name.
fn home(worker: &str) -> &str {
    worker.split(['/', ' ']).next().unwrap_or(worker)
}
