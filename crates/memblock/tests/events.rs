//! Operations tell what they do, at level TRACE and without being asked to print.

mod common;

use std::sync::{Arc, Mutex};

use common::{n, r};
use memblock::{AllocRequest, Behaviour, Memblock, Which};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

#[derive(Clone, Default)]
struct Ops(Arc<Mutex<Vec<String>>>);

impl Visit for &Ops {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "op" {
            self.0.lock().unwrap().push(value.into());
        }
    }
}

impl Subscriber for Ops {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::TRACE
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut &*self);
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn every_operation_emits_an_event_with_its_kernels_name() {
    let ops = Ops::default();
    tracing::subscriber::with_default(ops.clone(), || {
        let mut m = Memblock::new(Behaviour::V7_3);
        m.add(r(0x1000, 0x9000)).unwrap();
        m.add_node(r(0x9000, 0xa000), n(1), common::f(0)).unwrap();
        m.remove(r(0x8000, 0x9000)).unwrap();
        m.reserve(r(0x2000, 0x3000)).unwrap();
        m.free(r(0x2000, 0x2800)).unwrap();
        m.set_node(r(0, 0x9000), Which::Memory, n(0)).unwrap();
        m.mark_nomap(r(0x4000, 0x5000)).unwrap();
        m.trim_memory(0x1000);
        m.alloc(AllocRequest::new(8, 8)).unwrap();
        m.enforce_memory_limit(0x4000).unwrap();
        m.cap_memory_range(r(0, 0x2000)).unwrap();
    });
    assert_eq!(
        *ops.0.lock().unwrap(),
        [
            "memblock_add",
            "memblock_add_node",
            "memblock_remove",
            "memblock_reserve",
            "memblock_phys_free",
            "memblock_set_node",
            "memblock_setclr_flag",
            "memblock_trim_memory",
            "memblock_alloc",
            "memblock_enforce_memory_limit",
            "memblock_cap_memory_range",
        ]
    );
}
