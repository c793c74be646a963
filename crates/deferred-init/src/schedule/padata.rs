//! Chunks as the kernel's parallel jobs cut them.
//!
//! The kernel finishes a node's memory map by jobs of its `padata` layer: a range of frames, a least
//! chunk and an alignment of a section, and at most as many threads as the node has CPUs. Workers
//! take chunks from the front under a lock. Chunk *ends* are multiples of the chunk size, so the
//! first chunk may be short, and the job's end cuts the last.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::{Hand, HandOut, Next, Scheduler, Source, Tally, Visit, drive};
use crate::plan::{GroupWork, Piece, Work};
use crate::workers::{Crew, Start};

/// How a version of the kernel cuts a job into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PadataRules {
    /// Whether the alignment also bounds the number of workers from above, and a chunk has at least
    /// one frame (since 6.12).
    pub align_bounds_workers: bool,
}

/// What one job covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadataJobs {
    /// A node's zone, gaps included (since 6.18).
    PerZone,
    /// Sections that follow each other (6.1 and 6.12: a group of free ranges).
    PerRun,
}

/// The chunks of one job.
///
/// Linux: kernel/padata.c, `padata_do_multithreaded`.
#[doc(alias = "padata_do_multithreaded")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// Threads that take part.
    pub workers: u64,
    /// Chunk size in frames; chunk ends are multiples of it.
    pub chunk: u64,
    next: u64,
    end: u64,
}

impl Chunks {
    /// Cuts the job `[start, start + size)`, all in frames.
    pub fn new(
        rules: PadataRules,
        job: Range<u64>,
        min_chunk: u64,
        align: u64,
        max_threads: u64,
    ) -> Self {
        let size = job.end.saturating_sub(job.start);
        let least = match rules.align_bounds_workers {
            true => min_chunk.max(align),
            false => min_chunk,
        };
        let workers = (size / least.max(1)).max(1).min(max_threads.max(1));
        if workers == 1 {
            // the caller does all of it by one call
            return Self {
                workers,
                chunk: size.max(1),
                next: job.start,
                end: job.start + size,
            };
        }
        let chunk = (size / (workers * 4)).max(min_chunk).max(1);
        Self {
            workers,
            chunk: chunk.next_multiple_of(align.max(1)),
            next: job.start,
            end: job.end,
        }
    }
}

impl Iterator for Chunks {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        if self.next >= self.end {
            return None;
        }
        let start = self.next;
        self.next = match self.workers {
            1 => self.end,
            _ => (start + 1).next_multiple_of(self.chunk).min(self.end),
        };
        Some(start..self.next)
    }
}

/// The kernel's own way of sharing out a node.
#[derive(Clone, Copy, Debug)]
pub struct Padata {
    /// How jobs are cut.
    pub rules: PadataRules,
    /// What a job is.
    pub jobs: PadataJobs,
}

impl Padata {
    /// As 6.1 does it.
    pub const V6_1: Self = Self {
        rules: PadataRules {
            align_bounds_workers: false,
        },
        jobs: PadataJobs::PerRun,
    };
    /// As 6.12 does it.
    pub const V6_12: Self = Self {
        rules: PadataRules {
            align_bounds_workers: true,
        },
        jobs: PadataJobs::PerRun,
    };
    /// As 6.18 and 7.3 do it.
    pub const LATEST: Self = Self {
        rules: PadataRules {
            align_bounds_workers: true,
        },
        jobs: PadataJobs::PerZone,
    };
}

impl Default for Padata {
    fn default() -> Self {
        Self::LATEST
    }
}

impl Scheduler for Padata {
    fn name(&self) -> &'static str {
        "padata"
    }

    fn run(&self, crew: &Crew, work: &Work<'_>, start: &Start, visit: &Visit<'_>) -> Tally {
        drive(self, crew, work, start, visit)
    }
}

impl HandOut for Padata {
    fn begin<'w>(&self, work: &'w Work<'w>) -> Box<dyn Source + 'w> {
        let pages = work.shape().pages;
        let queues = work
            .groups()
            .iter()
            .map(|group| {
                let threads = group.workers.len() as u64;
                let mut jobs: Vec<Job> = jobs(group, self.jobs)
                    .into_iter()
                    .map(|runs| {
                        let first = group.runs()[runs.start].1.sections.start;
                        let last = group.runs()[runs.end - 1].1.sections.end;
                        let span = first * pages..last * pages;
                        let chunks = Chunks::new(self.rules, span, pages, pages, threads);
                        Job { runs, chunks }
                    })
                    .collect();
                jobs.reverse();
                Mutex::new(jobs)
            })
            .collect();
        Box::new(Queues { work, queues })
    }
}

struct Job {
    // indices of the group's runs
    runs: Range<usize>,
    chunks: Chunks,
}

/// The runs of each job.
fn jobs(group: &GroupWork, by: PadataJobs) -> Vec<Range<usize>> {
    let mut jobs: Vec<Range<usize>> = Vec::new();
    for (index, (_, run)) in group.runs().iter().enumerate() {
        let joins = jobs.last().is_some_and(|last| {
            let (_, before) = &group.runs()[last.end - 1];
            let ascending = before.sections.end <= run.sections.start;
            let same = match by {
                PadataJobs::PerZone => before.zone == run.zone,
                PadataJobs::PerRun => before.sections.end == run.sections.start,
            };
            before.node == run.node && same && ascending
        });
        match jobs.last_mut() {
            Some(last) if joins => last.end = index + 1,
            _ => jobs.push(index..index + 1),
        }
    }
    jobs
}

struct Queues<'w> {
    work: &'w Work<'w>,
    // a queue a group, jobs in reverse
    queues: Vec<Mutex<Vec<Job>>>,
}

impl Source for Queues<'_> {
    fn hand(&self, worker: usize) -> Box<dyn Hand + '_> {
        let group = self.work.group_of(worker).unwrap_or_default();
        let first = self
            .work
            .groups()
            .get(group)
            .map_or(0, |group| group.workers.start);
        Box::new(Puller {
            source: self,
            group,
            rank: (worker - first) as u64,
        })
    }
}

struct Puller<'s> {
    source: &'s Queues<'s>,
    group: usize,
    rank: u64,
}

impl Hand for Puller<'_> {
    fn next(&mut self) -> Next {
        let Some(group) = self.source.work.groups().get(self.group) else {
            return Next::Done;
        };
        let pages = self.source.work.shape().pages;
        let mut queue = self.source.queues[self.group]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // a job with fewer workers than the node has is left to the first of them
        while let Some(at) = queue.len().checked_sub(1) {
            let job = &mut queue[at];
            if self.rank >= job.chunks.workers {
                return if queue.len() > 1 {
                    Next::Wait
                } else {
                    Next::Done
                };
            }
            match job.chunks.next() {
                Some(chunk) => {
                    let positions = positions(group, &job.runs, chunk, pages);
                    if positions.is_empty() {
                        continue;
                    }
                    return Next::Piece(Piece {
                        group: self.group,
                        positions,
                    });
                }
                None => {
                    queue.pop();
                }
            }
        }
        Next::Done
    }
}

/// Positions of the sections of a job that start in a chunk of frames.
fn positions(group: &GroupWork, runs: &Range<usize>, chunk: Range<u64>, pages: u64) -> Range<u64> {
    let runs = &group.runs()[runs.clone()];
    let position = |section: u64| {
        let after = runs.partition_point(|(_, run)| run.sections.end <= section);
        match runs.get(after) {
            Some((start, run)) => start + section.saturating_sub(run.sections.start),
            None => runs.last().map_or(0, |(start, run)| start + run.len()),
        }
    };
    position(chunk.start.div_ceil(pages))..position(chunk.end.div_ceil(pages))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a job may be one chunk")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECTION: u64 = 0x8000;
    const NEW: PadataRules = PadataRules {
        align_bounds_workers: true,
    };

    fn cut(job: Range<u64>, threads: u64) -> Vec<Range<u64>> {
        Chunks::new(NEW, job, SECTION, SECTION, threads).collect()
    }

    #[test]
    fn chunk_ends_are_multiples_of_the_chunk_and_the_first_may_be_short() {
        // 64 sections, 4 threads: 16 chunks' worth a job, 4 sections each; the job starts at 2
        let chunks = cut(2 * SECTION..66 * SECTION, 4);
        assert_eq!(chunks[0], 2 * SECTION..4 * SECTION);
        assert_eq!(chunks[1], 4 * SECTION..8 * SECTION);
        assert_eq!(chunks.last(), Some(&(64 * SECTION..66 * SECTION)));
    }

    #[test]
    fn one_thread_or_a_small_job_is_one_chunk() {
        assert_eq!(cut(5..70 * SECTION, 1), [5..70 * SECTION]);
        assert_eq!(cut(7..SECTION, 8), [7..SECTION]);
        assert_eq!(cut(3..3, 8), Vec::<Range<u64>>::new());
    }

    #[test]
    fn versions_differ_where_the_alignment_exceeds_the_least_chunk() {
        let old = PadataRules {
            align_bounds_workers: false,
        };
        let job = 0..8 * SECTION;
        let least = SECTION / 4;
        assert_eq!(
            Chunks::new(old, job.clone(), least, SECTION, 64).workers,
            32
        );
        assert_eq!(Chunks::new(NEW, job, least, SECTION, 64).workers, 8);
    }

    proptest! {
        #[test]
        fn chunks_cover_the_job_once_and_end_on_sections(
            start in 0_u64..10 * SECTION,
            sections in 0_u64..300,
            threads in 1_u64..70,
        ) {
            let end = (start.div_ceil(SECTION) + sections) * SECTION;
            let all = Chunks::new(NEW, start..end, SECTION, SECTION, threads);
            let chunk = all.chunk;
            let mut at = start;
            for part in all {
                prop_assert_eq!(part.start, at);
                prop_assert!(part.end > part.start);
                prop_assert!(part.end == end || part.end % chunk == 0);
                at = part.end;
            }
            prop_assert_eq!(at, end.max(start));
        }
    }
}
