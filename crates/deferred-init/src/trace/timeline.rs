//! Every span of runs, to be drawn.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Instant;

use tracing::Subscriber;
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Fields, Kind, Names};
use super::{PARTS, chrome, lock};

/// A layer that keeps the spans of runs, nodes and sections with their times.
///
/// About 150 bytes a span are kept until [`Timeline::clear`]. Sections are drawn on a track of their
/// worker's thread, tracks are grouped by the workers' nodes, and runs and nodes have tracks of their
/// own.
#[derive(Clone, Debug)]
pub struct Timeline {
    kept: Arc<Kept>,
}

#[derive(Debug)]
struct Kept {
    epoch: Instant,
    /// Numbers for runs and nodes; a span's own id is used again once it is closed.
    serial: AtomicU64,
    parts: Vec<Mutex<Vec<Slice>>>,
}

/// A closed span.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) kind: Kind,
    /// ns after the layer was made.
    pub(super) begin: u64,
    /// ns after the layer was made.
    pub(super) end: u64,
    /// Its own number (runs and nodes).
    pub(super) serial: u64,
    /// Number of the node of a section, of the run of a node.
    pub(super) parent: Option<u64>,
    pub(super) thread: ThreadId,
    pub(super) fields: Fields,
    pub(super) names: Option<Box<Names>>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    /// A layer that has seen nothing; times count from now.
    pub fn new() -> Self {
        Self {
            kept: Arc::new(Kept {
                epoch: Instant::now(),
                serial: AtomicU64::new(0),
                parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            }),
        }
    }

    /// Writes what was seen so far as a Chrome trace in JSON. Spans that are still open are left out.
    ///
    /// # Errors
    /// What `to` says.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let mut slices: Vec<Slice> = Vec::new();
        for part in &self.kept.parts {
            slices.extend_from_slice(&lock(part));
        }
        chrome::write(slices, to)
    }

    /// Forgets everything that is closed.
    pub fn clear(&self) {
        for part in &self.kept.parts {
            lock(part).clear();
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.kept.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The span as long as it is open; a type of its own, so that layers do not meet.
struct Open(Slice);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Timeline {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(kind) = Kind::of(attributes.metadata()) else {
            return;
        };
        let Some(span) = context.span(id) else {
            return;
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let names = (kind == Kind::Run).then(|| {
            let mut names = Box::<Names>::default();
            attributes.record(&mut *names);
            names
        });
        let parent = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            extensions.get::<Open>().map(|open| open.0.serial)
        });
        let serial = match kind {
            Kind::Section => 0,
            // Relaxed: only that no number comes twice matters
            Kind::Run | Kind::Node => self.kept.serial.fetch_add(1, Ordering::Relaxed),
        };
        let begin = self.now();
        span.extensions_mut().insert(Open(Slice {
            kind,
            begin,
            end: begin,
            serial,
            parent,
            thread: std::thread::current().id(),
            fields,
            names,
        }));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(Open(slice)) = span.extensions_mut().get_mut()
        {
            values.record(&mut slice.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let Some(Open(mut slice)) = span.extensions_mut().remove() else {
            return;
        };
        slice.end = self.now();
        let part = &self.kept.parts[slice.fields.worker as usize % PARTS];
        lock(part).push(slice);
    }
}
