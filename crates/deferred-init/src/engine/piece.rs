//! What a worker does with a piece: claims, writes and publishes its sections, and logs them.

use std::mem::{replace, take};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use memblock::NodeId;
use memmap_core::buddy::SectionFree;
use tracing::{Span, debug_span, field};

use super::SpanDetail;
use super::phases::{Run, nanos};
use super::report::{Outcome, SectionRecord, Volume};
use crate::plan::{Piece, Shard};
use crate::schedule::Flow;
use crate::workers::Start;

/// What one worker has done so far; its own, locked only against the report.
///
/// Between two sections a worker finds little in its caches: what it needs there is kept together.
#[derive(Default)]
pub(super) struct Log {
    current: Option<Current>,
    // sections until it has done as many as others of its group, if all do equally many, and it is
    // time to wake the caller; 0 where it is not to be woken
    to_go: u64,
    pub(super) skipped: u64,
    pub(super) end_ns: u64,
    pub(super) records: Vec<SectionRecord>,
    // of sections that were handed over
    pub(super) free: Vec<SectionFree>,
    // by the place of the node, but for the current one
    pub(super) nodes: Vec<(Volume, u64)>,
}

/// The node of the last shard, and what was written for it since the one before it was another's.
struct Current {
    node: NodeId,
    place: usize,
    started: Instant,
    volume: Volume,
    end_ns: u64,
}

/// The shard that a worker is at, as far as it has come.
#[derive(Default)]
pub(super) struct InHand {
    began: Option<Instant>,
    first: u64,
    // being written
    pub(super) section: u64,
    pages: u64,
    written: u64,
    span: Option<Span>,
}

impl Log {
    /// Of a worker that wakes the caller after so many sections.
    pub(super) fn new(to_go: u64) -> Self {
        Self {
            to_go,
            ..Self::default()
        }
    }

    /// Puts what was written for the last node to what was written for it before.
    pub(super) fn end(&mut self) {
        self.turn_to(None);
    }

    /// Goes on with another node, or with none.
    fn turn_to(&mut self, next: Option<Current>) {
        let Some(last) = replace(&mut self.current, next) else {
            return;
        };
        if self.nodes.len() <= last.place {
            self.nodes.resize(last.place + 1, Default::default());
        }
        let (volume, end_ns) = &mut self.nodes[last.place];
        volume.add(&last.volume);
        *end_ns = last.end_ns.max(*end_ns);
    }
}

impl Run<'_> {
    /// Writes the sections of a piece, shard by shard.
    ///
    /// Between two sections nothing but what was just written is in the worker's caches, and a line of
    /// memory that has to come back costs as much as some struct pages. So all that is needed there is
    /// brought into this one frame first.
    pub(super) fn piece(
        &self,
        worker: usize,
        piece: &Piece,
        start: &Start,
        stop: &AtomicBool,
        log: &mut Log,
        hand: &mut InHand,
    ) -> Flow {
        let (target, writer, spans) = (self.target, self.options.writer, self.options.spans);
        let (cancel, grain) = (self.options.cancel.switch(), self.work.grain());
        for run in self.work.parts(piece) {
            let Some(place) = self.turn_to(run.node, start, log) else {
                continue;
            };
            let mut next = run.sections.start;
            while next < run.sections.end {
                // Relaxed: a worker that sees it late does one shard more
                if stop.load(Ordering::Relaxed) {
                    return Flow::Stop;
                }
                if cancel.load(Ordering::Relaxed) {
                    return self.end(Outcome::Cancelled);
                }
                let end = run.sections.end.min(next + grain);
                if (1..=end - next).contains(&log.to_go) {
                    self.crew.soon();
                }
                log.to_go = log.to_go.saturating_sub(end - next);
                (hand.first, hand.section) = (next, next);
                if spans == SpanDetail::Auto {
                    hand.span = Some(self.span(place, worker, &run, next..end));
                }
                hand.began = Some(Instant::now());
                while next < end {
                    hand.section = next;
                    let written = match spans {
                        SpanDetail::EverySection => {
                            let span = self.span(place, worker, &run, next..next + 1);
                            let began = (!span.is_disabled()).then(Instant::now);
                            let written = target.write(next, writer);
                            if let Some(began) = began {
                                span.record("ns", nanos(began.elapsed()));
                            }
                            written
                        }
                        SpanDetail::Auto | SpanDetail::Off => target.write(next, writer),
                    };
                    match written {
                        Some(section) => {
                            hand.pages += section.pages;
                            hand.written += 1;
                            log.free.extend(section.free);
                        }
                        None => log.skipped += 1,
                    }
                    next += 1;
                }
                self.close(worker, hand, log);
            }
        }
        Flow::Continue
    }

    /// Has a worker's log go on with a node; the node's place among those that are written.
    fn turn_to(&self, node: NodeId, start: &Start, log: &mut Log) -> Option<usize> {
        if let Some(own) = log.current.as_ref().filter(|own| own.node == node) {
            return Some(own.place);
        }
        // nodes are sorted, and there may be hundreds
        let place = self.nodes.binary_search_by_key(&node, |node| node.node);
        let (place, started) = (place.ok()?, start.started()?);
        log.turn_to(Some(Current {
            node,
            place,
            started,
            volume: Volume::default(),
            end_ns: 0,
        }));
        Some(place)
    }

    /// Logs the shard in hand, as far as it was written, and lays it down.
    pub(super) fn close(&self, worker: usize, hand: &mut InHand, log: &mut Log) {
        let Some(began) = hand.began else { return };
        let ns = nanos(began.elapsed());
        // whoever is told may panic: then this is called again
        if let Some(span) = hand.span.take() {
            span.record("ns", ns);
        }
        hand.began = None;
        let (pages, written) = (take(&mut hand.pages), take(&mut hand.written));
        let Some(own) = log.current.as_mut().filter(|_| written > 0) else {
            return;
        };
        let begin_ns = nanos(began.saturating_duration_since(own.started));
        own.volume.add(&Volume {
            sections: written,
            pages,
            bytes: written * self.work.shape().bytes,
            busy_ns: ns,
            longest_ns: ns,
        });
        own.end_ns = begin_ns + ns;
        log.end_ns = own.end_ns;
        if self.options.records {
            if log.records.is_empty() {
                // at once, and by the worker, whose node's memory it then is
                let share = self.work.fair_share(worker).div_ceil(self.work.grain());
                log.records.reserve(usize::try_from(share).unwrap_or(0));
            }
            log.records.push(SectionRecord {
                section: hand.first,
                count: written as u32,
                worker: worker as u32,
                begin_ns,
                ns,
            });
        }
    }

    fn span(&self, place: usize, worker: usize, run: &Shard, sections: Range<u64>) -> Span {
        let pages = self.work.shape().pages;
        let (first, count) = (sections.start, sections.end - sections.start);
        let seat = self.seat(worker);
        debug_span!(
            parent: &self.nodes[place].span,
            "section",
            node = run.node.get(),
            zone = run.zone,
            section = first,
            sections = count,
            first_pfn = first * pages,
            pages = count * pages,
            worker,
            home = seat.map_or(0, |seat| seat.node.get()),
            cpu = seat.map_or(0, |seat| seat.cpu),
            writer = self.options.writer.name(),
            bytes = count * self.work.shape().bytes,
            ns = field::Empty,
        )
    }
}
