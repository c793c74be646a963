//! How many sections are written ahead of those who ask, and who is told to write more.
//!
//! # Implementation
//! Numbers, not lists: what a node has written and what of that was asked for. The difference is what
//! lies ahead; it decides when something is written, never what or whether. A drain takes a section in
//! hand only where that and all others in hand do not pass the high mark, so drains by themselves never
//! write more than it, however many they are.
//!
//! A drain that goes to sleep because of what is in hand relies on whoever has it: that one looks again
//! when its section is written, and wakes the others where fewer than the low mark lie ahead.

use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, lock};

/// When sections are written ahead of those who ask, counted by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// With fewer written sections ahead than this, a drain begins.
    #[doc(alias = "WMARK_LOW")]
    pub low: u64,
    /// It ends with so many.
    #[doc(alias = "WMARK_HIGH")]
    pub high: u64,
}

impl Watermark {
    /// Nothing ahead: every section is written by who asks.
    pub const NONE: Self = Self { low: 0, high: 0 };
    /// Everything, as soon as there is time.
    pub const ALL: Self = Self {
        low: u64::MAX,
        high: u64::MAX,
    };
}

/// Begins a drain with fewer than 4 sections (512 MiB on amd64), and ends it with 16.
impl Default for Watermark {
    fn default() -> Self {
        Self { low: 4, high: 16 }
    }
}

/// What of a node is written and asked for.
#[derive(Debug, Default)]
pub(super) struct Node {
    written: AtomicU64,
    asked: AtomicU64,
    /// The position from which a drain looks for pending sections.
    next: AtomicU64,
    /// Whether a drain is filling it up.
    filling: AtomicBool,
    /// Sections that drains are writing just now. A section is counted as written before it leaves
    /// here, so one may be counted twice for a moment, and never not at all.
    in_hand: Mutex<u64>,
    /// Sections that it has.
    sections: u64,
}

/// The nodes of a machine, and the bell that drains wait for.
#[derive(Debug)]
pub(super) struct Ahead {
    nodes: Vec<Node>,
    watermark: Watermark,
    rung: Mutex<u64>,
    bell: Condvar,
}

/// What a drain is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Look at this section of a node, by position.
    Section {
        /// Which node, by place.
        node: usize,
        /// Which of its sections.
        position: u64,
    },
    /// Wait: enough lies ahead everywhere.
    Enough,
    /// Stop: nothing is pending anywhere.
    Done,
}

impl Ahead {
    /// For nodes with so many sections each, of which nothing is written.
    pub(super) fn new(sections: impl IntoIterator<Item = u64>, watermark: Watermark) -> Self {
        let nodes = sections.into_iter().map(|sections| Node {
            written: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            next: AtomicU64::new(0),
            filling: AtomicBool::new(watermark.low > 0),
            in_hand: Mutex::new(0),
            sections,
        });
        Self {
            nodes: nodes.collect(),
            watermark,
            rung: Mutex::new(0),
            bell: Condvar::new(),
        }
    }

    /// Sections of a node that are written and were never asked for.
    pub(super) fn of(&self, node: usize) -> u64 {
        let node = &self.nodes[node];
        // Relaxed: see the module's text; asked first, so that the difference is not too small
        let asked = node.asked.load(Ordering::Relaxed);
        node.written.load(Ordering::Relaxed).saturating_sub(asked)
    }

    /// A section of the node was written through us.
    pub(super) fn written(&self, node: usize) {
        self.nodes[node].written.fetch_add(1, Ordering::Relaxed);
    }

    /// A section of the node was asked for, for the first time.
    pub(super) fn asked(&self, node: usize) {
        self.nodes[node].asked.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells drains where `ahead` of the node are fewer than there should be.
    pub(super) fn look(&self, node: usize, ahead: u64) {
        // AcqRel: partner of the swap in `job`. Either we see that it is no longer filling, and
        // ring, or the drain sees why we came, and goes on.
        if ahead < self.watermark.low && !self.nodes[node].filling.swap(true, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// Wakes every drain, to look again.
    pub(super) fn ring(&self) {
        *lock(&self.rung) += 1;
        self.bell.notify_all();
    }

    /// How often the bell was rung; to be taken before looking for a job.
    pub(super) fn rung(&self) -> u64 {
        *lock(&self.rung)
    }

    /// Waits until it was rung more often than that.
    pub(super) fn wait(&self, seen: u64) {
        let mut rung = lock(&self.rung);
        while *rung == seen {
            rung = self
                .bell
                .wait(rung)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// What a drain is to do next, the node at `first` before others; `ahead` says how many sections
    /// of a node lie ahead. A section is in hand from here on until [`Ahead::done`].
    pub(super) fn job(&self, first: usize, ahead: &dyn Fn(usize) -> u64) -> Job {
        let mut left = false;
        for at in 0..self.nodes.len() {
            let place = (first + at) % self.nodes.len();
            let node = &self.nodes[place];
            // Relaxed: a position is looked at once, and what is there has a state of its own
            if node.next.load(Ordering::Relaxed) >= node.sections {
                continue;
            }
            left = true;
            if !node.filling.load(Ordering::Relaxed) {
                continue;
            }
            let mut in_hand = lock(&node.in_hand);
            let mut lies = ahead(place);
            if lies >= self.watermark.high {
                // AcqRel: partner of the swap in `look`
                node.filling.swap(false, Ordering::AcqRel);
                lies = ahead(place);
                if lies >= self.watermark.low {
                    continue;
                }
                node.filling.swap(true, Ordering::AcqRel);
            }
            if lies.saturating_add(*in_hand) >= self.watermark.high {
                continue;
            }
            let position = node.next.fetch_add(1, Ordering::Relaxed);
            if position < node.sections {
                *in_hand += 1;
                return Job::Section {
                    node: place,
                    position,
                };
            }
        }
        match left {
            true => Job::Enough,
            false => Job::Done,
        }
    }

    /// A section of the node is no longer in hand; `ahead` of the node lie ahead.
    pub(super) fn done(&self, node: usize, ahead: u64) {
        *lock(&self.nodes[node].in_hand) -= 1;
        if ahead < self.watermark.low {
            self.ring();
        }
    }

    /// Gives a section back that could not be written.
    pub(super) fn give_back(&self, node: usize, position: u64) {
        *lock(&self.nodes[node].in_hand) -= 1;
        self.nodes[node].next.fetch_min(position, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MARKS: Watermark = Watermark { low: 3, high: 6 };

    /// A node of 40 sections, and what drains that take turns would do with it.
    fn node() -> Ahead {
        Ahead::new([40], MARKS)
    }

    fn take(ahead: &Ahead) -> bool {
        match ahead.job(0, &|node| ahead.of(node)) {
            Job::Section { .. } => true,
            Job::Enough => false,
            Job::Done => panic!("there are 40"),
        }
    }

    fn finish(ahead: &Ahead) {
        ahead.written(0);
        ahead.done(0, ahead.of(0));
    }

    fn ask(ahead: &Ahead) {
        ahead.asked(0);
        ahead.look(0, ahead.of(0));
    }

    #[test]
    fn what_is_in_hand_counts_towards_the_high_mark() {
        let ahead = node();
        assert_eq!((0..10).filter(|_| take(&ahead)).count(), 6);
        assert_eq!(ahead.of(0), 0);
        for written in 1..=6 {
            finish(&ahead);
            assert!(!take(&ahead), "{written} written, the rest in hand");
        }
        assert_eq!(ahead.of(0), 6);
    }

    #[test]
    fn a_section_that_is_written_but_still_in_hand_is_never_missed() {
        let ahead = node();
        assert_eq!((0..10).filter(|_| take(&ahead)).count(), 6);
        for _ in 0..6 {
            ahead.written(0);
            assert!(!take(&ahead));
        }
        for _ in 0..6 {
            ahead.done(0, ahead.of(0));
            assert!(!take(&ahead));
        }
    }

    #[test]
    fn between_the_marks_nobody_is_woken_and_nothing_written() {
        let ahead = node();
        while take(&ahead) {
            finish(&ahead);
        }
        let rung = ahead.rung();
        for left in [5, 4, 3] {
            ask(&ahead);
            assert_eq!((ahead.of(0), ahead.rung()), (left, rung));
            assert!(!take(&ahead));
        }
        ask(&ahead);
        assert_eq!(ahead.rung(), rung + 1);
        while take(&ahead) {
            finish(&ahead);
        }
        assert_eq!(ahead.of(0), 6);
    }

    #[test]
    fn one_that_falls_behind_alone_wakes_the_others() {
        let ahead = node();
        assert_eq!((0..6).filter(|_| take(&ahead)).count(), 6);
        (0..6).for_each(|_| finish(&ahead));
        // the others sleep: none has seen that it is full, so nobody is told by those who ask
        let rung = ahead.rung();
        (0..5).for_each(|_| ask(&ahead));
        assert!(take(&ahead));
        assert_eq!(ahead.rung(), rung);
        finish(&ahead);
        assert_eq!((ahead.of(0), ahead.rung()), (2, rung + 1));
    }

    #[test]
    fn a_section_given_back_is_no_longer_in_hand_and_comes_again() {
        let ahead = node();
        let first = ahead.job(0, &|node| ahead.of(node));
        assert_eq!((1..10).filter(|_| take(&ahead)).count(), 5);
        ahead.give_back(0, 0);
        assert_eq!(ahead.job(0, &|node| ahead.of(node)), first);
        assert!(!take(&ahead));
    }
}
