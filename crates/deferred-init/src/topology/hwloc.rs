//! Topology from libhwloc, completed from sysfs.
//!
//! libhwloc knows processors that sysfs groups wrongly; but through its binding memory-only nodes,
//! memory sizes and distances cannot be reached, so those come from sysfs.
//!
//! # Implementation
//! Only packages, L3 caches, cores and PUs are asked for, by their CPU and node sets. The binding
//! must not be asked for objects of kind NUMANode (it panics on their negative depth), nor to print
//! or name an object (unsound), nor to bind: where libhwloc was told to describe another machine
//! (`HWLOC_SYNTHETIC`, `HWLOC_XMLFILE`, `HWLOC_FSROOT`) binding reports success and does nothing.
//! A topology that is not this machine's says so ([`Topology::is_host`]), and is never pinned to.

use std::collections::HashMap;

use hwloc2::{ObjectType, Topology as Library, TopologyObject};
use memblock::NodeId;

use super::{Cpu, Node, Note, Source, Topology, sysfs};
use crate::CpuSet;

/// Why libhwloc gave no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HwlocError {
    /// libhwloc could not load a topology.
    #[error("libhwloc loads no topology; unset HWLOC_* variables, or read sysfs instead")]
    Load,
    /// What it loaded has no CPU that is described well enough.
    #[error("libhwloc names no CPU; unset HWLOC_* variables, or read sysfs instead")]
    NoCpus,
    /// The part that comes from sysfs could not be read.
    #[error(transparent)]
    Sysfs(#[from] sysfs::SysfsError),
}

/// Variables that make libhwloc describe something else than the running machine.
const ELSEWHERE: [&str; 3] = ["HWLOC_SYNTHETIC", "HWLOC_XMLFILE", "HWLOC_FSROOT"];

/// Reads what libhwloc describes.
///
/// # Errors
/// [`HwlocError`].
pub fn read() -> Result<Topology, HwlocError> {
    let library = Library::new().ok_or(HwlocError::Load)?;
    let pus = processing_units(&library);
    if pus.is_empty() {
        return Err(HwlocError::NoCpus);
    }
    let elsewhere = ELSEWHERE
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    match elsewhere {
        true => Ok(foreign(pus)),
        false => {
            let host = sysfs::read_host()?;
            let seen: CpuSet = pus.iter().map(|pu| pu.cpu.id).collect();
            // it may leave out CPUs that a control group takes away, never ones that we may use
            if host.allowed_cpus.is_subset(&seen) {
                Ok(complete(host, pus))
            } else {
                Ok(foreign(pus))
            }
        }
    }
}

struct Pu {
    cpu: Cpu,
    nodes: CpuSet,
}

/// Every PU with the numbers of the objects above it.
fn processing_units(library: &Library) -> Vec<Pu> {
    let objects = |kind: ObjectType| library.objects_with_type(&kind).unwrap_or_default();
    let mut pus: Vec<Pu> = objects(ObjectType::PU)
        .into_iter()
        .filter_map(|object| {
            let id = object.os_index();
            // os_index is all ones where it is unknown
            (id < 1 << 20).then(|| Pu {
                cpu: Cpu {
                    id,
                    node: None,
                    package: 0,
                    die: 0,
                    l3: 0,
                    core: 0,
                    smt: 0,
                },
                nodes: nodes_of(object),
            })
        })
        .collect();
    pus.sort_by_key(|pu| pu.cpu.id);
    let ids: Vec<u32> = pus.iter().map(|pu| pu.cpu.id).collect();
    let groups = |kind| number(&ids, &objects(kind));
    let package = groups(ObjectType::Package);
    let l3 = groups(ObjectType::L3Cache);
    let core = groups(ObjectType::Core);
    // without a third-level cache the package is what a CPU shares most
    let l3 = if l3.is_empty() { package.clone() } else { l3 };
    for (at, pu) in pus.iter_mut().enumerate() {
        let of = |map: &HashMap<u32, u32>| map.get(&ids[at]).copied();
        pu.cpu.package = of(&package).unwrap_or(0);
        pu.cpu.die = pu.cpu.package;
        pu.cpu.l3 = of(&l3).unwrap_or(0);
        pu.cpu.core = of(&core).unwrap_or(at as u32);
        let node = pu.nodes.first().and_then(|id| u16::try_from(id).ok());
        pu.cpu.node = node.map(NodeId::new);
    }
    pus
}

/// For each CPU the number of the object that holds it, by the order of their lowest CPUs.
fn number(ids: &[u32], objects: &[&TopologyObject]) -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    let mut next = 0;
    for &id in ids {
        if found.contains_key(&id) {
            continue;
        }
        let holder = objects
            .iter()
            .filter_map(|object| object.cpuset())
            .find(|set| set.is_set(id));
        if let Some(holder) = holder {
            found.extend(
                ids.iter()
                    .filter(|id| holder.is_set(**id))
                    .map(|id| (*id, next)),
            );
            next += 1;
        }
    }
    found
}

fn nodes_of(object: &TopologyObject) -> CpuSet {
    let Some(set) = object.nodeset() else {
        return CpuSet::new();
    };
    // a machine without nodes gives the full, endless set: its last is −1
    let last = u32::try_from(set.last())
        .unwrap_or(0)
        .min(u32::from(u16::MAX));
    (0..=last).filter(|id| set.is_set(*id)).collect()
}

/// This machine: sysfs, with the groups as libhwloc sees them.
fn complete(mut host: Topology, pus: Vec<Pu>) -> Topology {
    let by_id: HashMap<u32, Cpu> = pus.iter().map(|pu| (pu.cpu.id, pu.cpu)).collect();
    let all = host.cpus.iter().all(|cpu| by_id.contains_key(&cpu.id));
    // numbers of the two sources must not be mixed
    if all {
        for cpu in &mut host.cpus {
            if let Some(seen) = by_id.get(&cpu.id) {
                cpu.package = seen.package;
                cpu.core = seen.core;
                cpu.l3 = seen.l3;
                cpu.node = cpu.node.or(seen.node);
            }
        }
        Topology::rank_threads(&mut host.cpus);
    }
    let seen = pus
        .iter()
        .fold(CpuSet::new(), |all, pu| all.union(&pu.nodes));
    let nodes: CpuSet = host
        .nodes
        .iter()
        .map(|node| u32::from(node.id.get()))
        .collect();
    let missed = nodes.difference(&seen);
    if !missed.is_empty() {
        host.notes.push(Note::NodesCompleted(missed));
    }
    host.source = Source::Hwloc;
    host
}

/// Another machine: what libhwloc says is all there is.
fn foreign(pus: Vec<Pu>) -> Topology {
    let mut cpus: Vec<Cpu> = pus.iter().map(|pu| pu.cpu).collect();
    Topology::rank_threads(&mut cpus);
    let seen = pus
        .iter()
        .fold(CpuSet::new(), |all, pu| all.union(&pu.nodes));
    let nodes: Vec<Node> = seen
        .iter()
        .filter_map(|id| u16::try_from(id).ok().map(NodeId::new))
        .map(|id| Node {
            id,
            cpus: cpus
                .iter()
                .filter(|cpu| cpu.node == Some(id))
                .map(|cpu| cpu.id)
                .collect(),
            memory: 0,
            blocks: Vec::new(),
        })
        .collect();
    Topology {
        source: Source::Hwloc,
        allowed_cpus: cpus.iter().map(|cpu| cpu.id).collect(),
        cpus,
        offline: CpuSet::new(),
        distances: vec![vec![0; nodes.len()]; nodes.len()],
        allowed_nodes: seen,
        notes: nodes
            .iter()
            .map(|node| Note::DistancesUnknown(node.id))
            .collect(),
        nodes,
        block_bytes: None,
        is_host: false,
    }
}
