//! Equal shares, decided beforehand.

use super::{Hand, HandOut, Next, Scheduler, Source, Tally, Visit, drive, share};
use crate::plan::{Piece, Work};
use crate::workers::{Crew, Start};

/// Every worker gets one contiguous share of its group; shares differ by at most one section.
///
/// Nothing is taken twice and nothing is balanced: the slowest worker decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Static;

impl Scheduler for Static {
    fn name(&self) -> &'static str {
        "static"
    }

    fn run(&self, crew: &Crew, work: &Work<'_>, start: &Start, visit: &Visit<'_>) -> Tally {
        drive(self, crew, work, start, visit)
    }
}

impl HandOut for Static {
    fn begin<'w>(&self, work: &'w Work<'w>) -> Box<dyn Source + 'w> {
        Box::new(Shares { work })
    }
}

struct Shares<'w> {
    work: &'w Work<'w>,
}

impl Source for Shares<'_> {
    fn hand(&self, worker: usize) -> Box<dyn Hand + '_> {
        let own = self.work.group_of(worker).and_then(|index| {
            let group = self.work.groups().get(index)?;
            let share = share(
                group.sections(),
                group.workers.len(),
                worker - group.workers.start,
            );
            Some(Piece {
                group: index,
                positions: share,
            })
        });
        Box::new(Share(own))
    }
}

/// All of it at once: nobody else may want a part of it.
struct Share(Option<Piece>);

impl Hand for Share {
    fn next(&mut self) -> Next {
        match self.0.take() {
            Some(share) if !share.is_empty() => Next::Piece(share),
            _ => Next::Done,
        }
    }
}

/// Takes at most `grain` sections off the front.
pub(super) fn split_front(rest: &mut Piece, grain: u64) -> Piece {
    let end = rest.positions.end.min(rest.positions.start + grain);
    let front = Piece {
        group: rest.group,
        positions: rest.positions.start..end,
    };
    rest.positions.start = end;
    front
}
