//! Spans of a run: one for it, one a node, one a section, with their figures.
//!
//! Workers take the process's subscriber, so this test has a process of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use deferred_init::engine::{Engine, RunOptions};
use deferred_init::plan::Plan;
use deferred_init::topology::synthetic;
use deferred_init::workers::{Pinning, WorkerChoice};
use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
use memmap_core::{
    BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, writers,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<u64, Seen>>>);

#[derive(Clone, Default)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut seen = Seen {
            name: attributes.metadata().name(),
            parent: attributes.parent().map(Id::into_u64),
            ..Seen::default()
        };
        attributes.record(&mut seen);
        // ids are used again once a span is closed: keep each under a number of its own
        self.0.lock().unwrap().insert(id.into_u64(), seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(seen) = self.0.lock().unwrap().get_mut(&id.into_u64()) {
            values.record(seen);
        }
    }
}

#[test]
fn every_section_has_a_span_below_its_node() {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut memory = Memblock::new(Behaviour::V6_12);
    for node in 0..2 {
        let range = PhysRange::from_size(PhysAddr::new(node << 29), 1 << 29);
        memory
            .add_node(range, NodeId::new(node as u16), MemblockFlags::empty())
            .unwrap();
    }
    let profile = Profile::amd64(KernelVersion::V6_12);
    let geometry = Geometry::new(&profile, &memory, &BootOptions::default()).unwrap();
    let plan = Plan::new(&geometry).unwrap();
    let map = MemoryMap::new(geometry, BackingOptions::default()).unwrap();
    let engine = Engine::new(synthetic::parse("numa:2(memory=1G) core:2").unwrap());
    let mut options = RunOptions::new(writers::by_name("zero").unwrap());
    options.workers = WorkerChoice {
        pinning: Pinning::Off,
        ..WorkerChoice::default()
    };
    let report = engine.run(&map, &plan, &options).unwrap();
    assert_eq!(report.left(), 0);

    let seen = spans.0.lock().unwrap();
    let named = |name: &str| {
        seen.iter()
            .filter(|(_, s)| s.name == name)
            .collect::<Vec<_>>()
    };
    let run = named("run");
    assert_eq!(run.len(), 1);
    assert_eq!(run[0].1.fields["sections"], "8");
    assert_eq!(run[0].1.fields["writer"], "\"zero\"");
    let nodes = named("node");
    assert_eq!(nodes.len(), 2);
    for (_, node) in &nodes {
        assert_eq!(node.parent, Some(*run[0].0));
        assert_eq!(node.fields["sections"], "4");
        assert!(node.fields.contains_key("ns"));
    }
    // a closed span's id is used again: at least the last one of each worker is still known
    let sections = named("section");
    assert!(sections.len() >= 2, "{}", sections.len());
    for (_, section) in sections {
        let number: u64 = section.fields["section"].parse().unwrap();
        assert_eq!(section.fields["first_pfn"], (number * 0x8000).to_string());
        assert_eq!(section.fields["pages"], "32768");
        assert_eq!(section.fields["bytes"], (2 << 20).to_string());
        assert_eq!(section.fields["node"], (number / 4).to_string());
        for name in ["zone", "worker", "cpu", "writer", "ns"] {
            assert!(section.fields.contains_key(name), "{name}");
        }
        let parent = &seen[&section.parent.unwrap()];
        assert_eq!(parent.fields["node"], section.fields["node"]);
    }
}
