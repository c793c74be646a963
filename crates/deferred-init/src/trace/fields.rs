//! Fields of spans, as numbers.

use std::fmt::Debug;

use tracing::Metadata;
use tracing::field::{Field, Visit};

/// Which span of a run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Run,
    Node,
    Section,
}

impl Kind {
    /// The kind of one of our spans; `None` for anybody else's.
    pub(super) fn of(metadata: &Metadata<'_>) -> Option<Self> {
        if !metadata.target().starts_with("deferred_init") {
            return None;
        }
        match metadata.name() {
            "run" => Some(Self::Run),
            "node" => Some(Self::Node),
            "section" => Some(Self::Section),
            _ => None,
        }
    }
}

/// What spans say. A field that a span has not is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) node: u64,
    pub(super) served_by: u64,
    pub(super) zone: u64,
    pub(super) section: u64,
    pub(super) sections: u64,
    pub(super) first_pfn: u64,
    pub(super) pages: u64,
    pub(super) worker: u64,
    pub(super) home: u64,
    pub(super) cpu: u64,
    pub(super) bytes: u64,
    pub(super) workers: u64,
    pub(super) ns: Option<u64>,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        let place = match field.name() {
            "node" => &mut self.node,
            "served_by" => &mut self.served_by,
            "zone" => &mut self.zone,
            "section" => &mut self.section,
            "sections" => &mut self.sections,
            "first_pfn" => &mut self.first_pfn,
            "pages" => &mut self.pages,
            "worker" => &mut self.worker,
            "home" => &mut self.home,
            "cpu" => &mut self.cpu,
            "bytes" => &mut self.bytes,
            "workers" => &mut self.workers,
            "ns" => self.ns.insert(value),
            _ => return,
        };
        *place = value;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// Names that only the span of a run has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) writer: String,
    pub(super) scheduler: String,
}

impl Visit for Names {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "writer" => value.clone_into(&mut self.writer),
            "scheduler" => value.clone_into(&mut self.scheduler),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
