//! Figures of spans: a histogram of times a node and worker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use memblock::NodeId;
use tracing::Subscriber;
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Fields, Kind};
use super::{Histogram, PARTS, lock};

/// A layer that adds up the spans of sections by node and worker.
#[derive(Clone, Debug)]
pub struct Aggregate {
    parts: Arc<Vec<Mutex<Part>>>,
}

/// By the node of the sections and the index of the worker.
type Part = BTreeMap<(u16, u32), SpanTotals>;

/// What a worker wrote for a node, by its spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanTotals {
    /// Times of spans, ns.
    pub times: Histogram,
    /// Sections in them.
    pub sections: u64,
    /// Struct pages in them.
    pub pages: u64,
    /// Bytes of struct pages in them.
    pub bytes: u64,
    /// Spans that ended without a time: their worker panicked.
    pub unfinished: u64,
}

impl SpanTotals {
    fn add(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.sections += other.sections;
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.unfinished += other.unfinished;
    }
}

/// What was added up so far.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggregateReport {
    /// By the node of the sections and the worker's index.
    pub workers: BTreeMap<(NodeId, u32), SpanTotals>,
}

impl Default for Aggregate {
    fn default() -> Self {
        Self::new()
    }
}

impl Aggregate {
    /// A layer that has seen nothing.
    pub fn new() -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self {
            parts: Arc::new(parts),
        }
    }

    /// What was added up so far.
    pub fn report(&self) -> AggregateReport {
        let mut report = AggregateReport::default();
        for part in self.parts.iter() {
            for (&(node, worker), totals) in lock(part).iter() {
                let key = (NodeId::new(node), worker);
                report.workers.entry(key).or_default().add(totals);
            }
        }
        report
    }

    /// Forgets everything.
    pub fn clear(&self) {
        for part in self.parts.iter() {
            lock(part).clear();
        }
    }

    fn count(&self, fields: &Fields) {
        let part = &self.parts[fields.worker as usize % PARTS];
        let mut part = lock(part);
        let totals = part
            .entry((fields.node as u16, fields.worker as u32))
            .or_default();
        match fields.ns {
            Some(ns) => {
                totals.times.add(ns);
                totals.sections += fields.sections;
                totals.pages += fields.pages;
                totals.bytes += fields.bytes;
            }
            None => totals.unfinished += 1,
        }
    }
}

/// What of a span is still to be counted; a type of its own, so that layers do not meet.
struct Uncounted(Fields);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Aggregate {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if Kind::of(attributes.metadata()) != Some(Kind::Section) {
            return;
        }
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Uncounted(fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(Uncounted(fields)) = span.extensions_mut().get_mut()
        {
            values.record(fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        if let Some(Uncounted(fields)) = span.extensions_mut().remove() {
            self.count(&fields);
        }
    }
}

impl AggregateReport {
    /// By node: all its workers together.
    pub fn nodes(&self) -> BTreeMap<NodeId, SpanTotals> {
        let mut nodes: BTreeMap<NodeId, SpanTotals> = BTreeMap::new();
        for (&(node, _), totals) in &self.workers {
            nodes.entry(node).or_default().add(totals);
        }
        nodes
    }

    /// All together.
    pub fn total(&self) -> SpanTotals {
        let mut total = SpanTotals::default();
        for totals in self.workers.values() {
            total.add(totals);
        }
        total
    }
}

/// A table: a line a node and, below it, a line a worker.
impl fmt::Display for AggregateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "node worker    spans sections     p50 us     p90 us     p99 us     max us   GB/s"
        )?;
        for (node, totals) in self.nodes() {
            line(f, format_args!("{node:>4}    all"), &totals)?;
            let own = (node, 0)..=(node, u32::MAX);
            for ((_, worker), totals) in self.workers.range(own) {
                line(f, format_args!("     {worker:>6}"), totals)?;
            }
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, who: fmt::Arguments<'_>, totals: &SpanTotals) -> fmt::Result {
    let times = &totals.times;
    let micros = |share| times.quantile(share) as f64 / 1e3;
    write!(
        f,
        "{who} {:>8} {:>8} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>6.2}",
        times.count(),
        totals.sections,
        micros(0.5),
        micros(0.9),
        micros(0.99),
        times.most() as f64 / 1e3,
        totals.bytes as f64 / times.sum().max(1) as f64,
    )?;
    match totals.unfinished {
        0 => writeln!(f),
        some => writeln!(f, "  {some} unfinished"),
    }
}
