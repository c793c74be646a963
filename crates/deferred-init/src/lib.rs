//! Initialises a memory map in parallel: the right worker on the right CPU writes the right section.
//!
//! # Features
//! - `trace` (default): layers that make figures and timelines of spans
//! - `hwloc`: topology from libhwloc instead of sysfs
//!
//! # From a geometry to a map
//! A [`Topology`] says what the host has. A [`Plan`](plan::Plan) cuts a geometry into shards, before
//! any thread runs; an [`Engine`](engine::Engine) lets pinned [`workers`] take them as a
//! [scheduler](schedule) says, and reports times, rates and where the memory really lies.
//!
//! ```
//! use deferred_init::engine::{Engine, Outcome, RunOptions};
//! use deferred_init::plan::Plan;
//! use deferred_init::workers::Pinning;
//! use deferred_init::{Topology, schedule};
//! use memblock::{Behaviour, Memblock, MemblockFlags, NodeId, PhysAddr, PhysRange};
//! use memmap_core::{
//!     BackingOptions, BootOptions, Geometry, KernelVersion, MemoryMap, Profile, writers,
//! };
//!
//! let mut memory = Memblock::new(Behaviour::V7_3);
//! let range = PhysRange::from_size(PhysAddr::new(0), 512 << 20);
//! memory.add_node(range, NodeId::new(0), MemblockFlags::empty())?;
//! let profile = Profile::amd64(KernelVersion::V7_3);
//! let geometry = Geometry::new(&profile, &memory, &BootOptions::default())?;
//!
//! let plan = Plan::new(&geometry)?;
//! assert_eq!(plan.sections(), 4);
//! let map = MemoryMap::new(geometry, BackingOptions::default())?;
//! let deque = schedule::by_name("deque").expect("a scheduler of the list");
//! let mut options = RunOptions::new(&writers::Stream::DETECT)
//!     .threads(2)
//!     .scheduler(deque);
//! // two threads, wherever this example runs
//! options.workers.oversubscribe = true;
//! options.workers.pinning = Pinning::Off;
//! let report = Engine::new(Topology::host()?).run(&map, &plan, &options)?;
//! assert_eq!(report.outcome, Outcome::Complete);
//! assert_eq!(report.total().pages, 131_072);
//! assert!(map.is_complete() && map.check().is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod cpuset;
pub mod engine;
pub mod plan;
pub mod policy;
pub mod schedule;
mod sync;
pub mod topology;
#[cfg(feature = "trace")]
pub mod trace;
pub mod workers;

pub use cpuset::{CpuSet, CpuSetError};
pub use topology::Topology;
