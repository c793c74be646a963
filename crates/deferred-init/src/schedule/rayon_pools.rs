//! One rayon pool a node.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::{Flow, Scheduler, Tally, Visit};
use crate::plan::{Piece, Work};
use crate::workers::{Crew, Start, Traced};

/// Rayon splits each node's sections over that node's own pool; pools never mix.
#[derive(Clone, Copy, Debug, Default)]
pub struct RayonPools;

impl Scheduler for RayonPools {
    fn name(&self) -> &'static str {
        "rayon"
    }

    fn run(&self, crew: &Crew, work: &Work<'_>, start: &Start, visit: &Visit<'_>) -> Tally {
        // all threads are awake and on their CPUs before the first piece is offered
        crew.each(&|_| {
            start.wait();
        });
        let stop = AtomicBool::new(false);
        let traced = Traced::here();
        let (stop, traced) = (&stop, &traced);
        let grain = work.grain();
        crew.scopes(&|index, scope| {
            let Some(group) = work.groups().get(index) else {
                return;
            };
            let (first, sections) = (group.workers.start, group.sections());
            scope.spawn(move |_| {
                let pieces = (0..sections.div_ceil(grain)).into_par_iter();
                // `try_for_each` ends early once a worker said stop
                let _ = pieces.try_for_each(|piece| {
                    // Relaxed: stopping a piece later is as good
                    if stop.load(Ordering::Relaxed) {
                        return Err(());
                    }
                    let worker = first + rayon::current_thread_index().unwrap_or_default();
                    let start = piece * grain;
                    let piece = Piece {
                        group: index,
                        positions: start..(start + grain).min(sections),
                    };
                    match traced.scope(|| visit(worker, piece)) {
                        Flow::Continue => Ok(()),
                        Flow::Stop => {
                            stop.store(true, Ordering::Relaxed);
                            Err(())
                        }
                    }
                });
            });
        });
        Tally::default()
    }
}
