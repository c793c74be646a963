//! Topology from `/sys/devices/system/{cpu,node}`, under any root.
//!
//! Every file may be missing: kernels of twenty years differ in what they show, containers hide
//! some of it, and trees in tests are cut down. What cannot be known is left at its least surprising
//! value and noted.
//!
//! # Implementation
//! CPUs are grouped by the *sets* that sysfs shows (`core_cpus`, `die_cpus`, `package_cpus` and their
//! older names), falling back on numbers (`physical_package_id`) where there are none. Sets are cut
//! to online CPUs, and two CPUs are in one group where their sets are equal.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memblock::NodeId;

use super::{Cpu, Node, Note, Source, Topology};
use crate::CpuSet;

/// Why no topology could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SysfsError {
    /// Nothing names even one CPU.
    #[error(
        "no CPU is named in {path}; is /sys mounted? a sandbox may hide it: describe the host by a synthetic topology instead"
    )]
    NoCpus {
        /// The folder that was searched.
        path: PathBuf,
    },
    /// The system does not say on which CPUs we may run.
    #[error("the CPUs that this process may use are unknown")]
    Affinity(#[from] sys::SysError),
    /// None of the online CPUs is allowed to us.
    #[error("none of the online CPUs {online} is among the allowed {allowed}")]
    NothingAllowed {
        /// CPUs that are online.
        online: CpuSet,
        /// CPUs that we may use.
        allowed: CpuSet,
    },
}

/// Reads the running machine; the allowed CPUs are those of the calling thread.
pub(super) fn read_host() -> Result<Topology, SysfsError> {
    let mut topology = read(Path::new("/"))?;
    let online: CpuSet = topology.cpus.iter().map(|cpu| cpu.id).collect();
    let mask = CpuSet::from_words(&sys::affinity()?);
    topology.allowed_cpus = online.intersection(&mask);
    if topology.allowed_cpus.is_empty() {
        return Err(SysfsError::NothingAllowed {
            online,
            allowed: mask,
        });
    }
    topology.is_host = true;
    Ok(topology)
}

/// Reads `sys` and `proc` below `root`.
///
/// What is allowed comes from `proc/self/status`, or where the tree has none from the control group
/// `sys/fs/cgroup/cpuset`; where neither is there, everything online is.
///
/// # Errors
/// [`SysfsError::NoCpus`].
pub fn read(root: &Path) -> Result<Topology, SysfsError> {
    let mut reader = Reader {
        system: root.join("sys/devices/system"),
        notes: Vec::new(),
    };
    let (online, offline) = reader.online_cpus()?;
    let mut nodes = reader.nodes(&online);
    let distances = reader.distances(&nodes);
    if nodes.is_empty() {
        reader.notes.push(Note::NoNuma);
        let memory = meminfo_bytes(&root.join("proc/meminfo"), "MemTotal:");
        nodes.push(Node {
            id: NodeId::new(0),
            cpus: online.clone(),
            memory: memory.unwrap_or(0),
            blocks: Vec::new(),
        });
    }
    let distances = match distances.is_empty() {
        true => vec![vec![super::LOCAL]],
        false => distances,
    };
    let cpus = reader.cpus(&online, &nodes);
    let stray: CpuSet = cpus
        .iter()
        .filter(|cpu| cpu.node.is_none())
        .map(|cpu| cpu.id)
        .collect();
    if !stray.is_empty() {
        reader.notes.push(Note::CpusWithoutNode(stray));
    }
    let all_nodes: CpuSet = nodes.iter().map(|node| u32::from(node.id.get())).collect();
    let (allowed_cpus, allowed_nodes) = reader.allowed(root);
    Ok(Topology {
        source: Source::Sysfs(root.to_owned()),
        cpus,
        offline,
        distances,
        allowed_cpus: allowed_cpus.map_or_else(|| online.clone(), |set| set.intersection(&online)),
        allowed_nodes: allowed_nodes
            .map_or_else(|| all_nodes.clone(), |set| set.intersection(&all_nodes)),
        nodes,
        block_bytes: reader.block_bytes(),
        is_host: false,
        notes: reader.notes,
    })
}

struct Reader {
    system: PathBuf,
    notes: Vec<Note>,
}

impl Reader {
    /// A file's text; some kernels end it with a NUL byte.
    fn text(&self, path: &Path) -> Option<String> {
        let bytes = std::fs::read(path).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some(
            text.split('\0')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned(),
        )
    }

    /// A set from a list file, or from the map file that older kernels have instead.
    fn set(&mut self, folder: &Path, list: &str, map: &str) -> Option<CpuSet> {
        for (name, parse) in [
            (list, CpuSet::parse_list as fn(&str) -> _),
            (map, CpuSet::parse_map),
        ] {
            let path = folder.join(name);
            let Some(text) = self.text(&path) else {
                continue;
            };
            match parse(&text) {
                Ok(set) => return Some(set),
                Err(error) => self.notes.push(Note::Unreadable {
                    path,
                    reason: error.to_string(),
                }),
            }
        }
        None
    }

    /// The numbers of the sub-folders `PREFIXn`.
    fn numbered(&self, folder: &Path, prefix: &str) -> Vec<u64> {
        let mut ids: Vec<u64> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                entry
                    .file_name()
                    .to_str()?
                    .strip_prefix(prefix)?
                    .parse()
                    .ok()
            })
            .collect();
        ids.sort_unstable();
        ids
    }

    /// CPUs that are online, and those that are there but are not.
    fn online_cpus(&mut self) -> Result<(CpuSet, CpuSet), SysfsError> {
        let folder = self.system.join("cpu");
        let present: CpuSet = self
            .numbered(&folder, "cpu")
            .into_iter()
            .filter_map(|id| u32::try_from(id).ok())
            .collect();
        let online = match self.set(&folder, "online", "online") {
            Some(online) if !online.is_empty() => online,
            // kernels before 2.6.2x have no list: a file in each CPU's folder but, often, the first
            _ => present
                .iter()
                .filter(|id| {
                    let path = folder.join(format!("cpu{id}/online"));
                    self.text(&path).is_none_or(|text| text != "0")
                })
                .collect(),
        };
        if online.is_empty() {
            return Err(SysfsError::NoCpus { path: folder });
        }
        let there = self
            .set(&folder, "present", "present")
            .map_or_else(|| present.clone(), |set| set.union(&present));
        Ok((online.clone(), there.difference(&online)))
    }

    fn nodes(&mut self, online: &CpuSet) -> Vec<Node> {
        let folder = self.system.join("node");
        let mut nodes = Vec::new();
        for id in self.numbered(&folder, "node") {
            let Ok(number) = u16::try_from(id) else {
                continue;
            };
            let at = folder.join(format!("node{id}"));
            let cpus = self.set(&at, "cpulist", "cpumap").unwrap_or_default();
            nodes.push(Node {
                id: NodeId::new(number),
                cpus: cpus.intersection(online),
                memory: meminfo_bytes(&at.join("meminfo"), "MemTotal:").unwrap_or(0),
                blocks: ranges(&self.numbered(&at, "memory")),
            });
        }
        nodes
    }

    /// A row has an entry for every node that was online when it was printed, by ascending number.
    fn distances(&mut self, nodes: &[Node]) -> Vec<Vec<u32>> {
        let folder = self.system.join("node");
        let shown: CpuSet = nodes.iter().map(|node| u32::from(node.id.get())).collect();
        let possible = self
            .set(&folder, "possible", "possible")
            .unwrap_or_default();
        let mut rows = Vec::new();
        for node in nodes {
            let at = folder.join(format!("node{}/distance", node.id));
            let row: Option<Vec<u32>> = self.text(&at).and_then(|text| {
                text.split_whitespace()
                    .map(|word| word.parse().ok())
                    .collect()
            });
            let row = row.unwrap_or_default();
            let columns = [&shown, &possible]
                .into_iter()
                .find(|set| !row.is_empty() && set.len() == row.len());
            let Some(columns) = columns else {
                self.notes.push(Note::DistancesUnknown(node.id));
                rows.push(vec![0; nodes.len()]);
                continue;
            };
            let by_node: HashMap<u32, u32> = columns.iter().zip(row).collect();
            let of = |to: &Node| by_node.get(&u32::from(to.id.get())).copied().unwrap_or(0);
            rows.push(nodes.iter().map(of).collect());
        }
        rows
    }

    fn cpus(&mut self, online: &CpuSet, nodes: &[Node]) -> Vec<Cpu> {
        let mut packages = Groups::default();
        let mut dies = Groups::default();
        let mut caches = Groups::default();
        let mut cores = Groups::default();
        let mut cpus = Vec::new();
        for id in online.iter() {
            let at = self.system.join(format!("cpu/cpu{id}"));
            let topology = at.join("topology");
            // a die number of −1 stands for "no dies", and the set then holds this CPU alone
            let has_die = self.text(&topology.join("die_id"));
            let has_die = has_die.is_none_or(|die| die != "-1");
            let mut shared = |names: &[(&str, &str)]| self.shared(&topology, names, id, online);
            let core = shared(&[
                ("core_cpus_list", "core_cpus"),
                ("thread_siblings_list", "thread_siblings"),
            ]);
            let package = shared(&[
                ("package_cpus_list", "package_cpus"),
                ("core_siblings_list", "core_siblings"),
            ]);
            let die = shared(&[("die_cpus_list", "die_cpus")]).filter(|_| has_die);
            let node = nodes.iter().find(|node| node.cpus.contains(id));
            let alone: CpuSet = [id].into_iter().collect();
            let package_id = self.text(&topology.join("physical_package_id"));
            // On some machines (−1) a package is not known at all: they are then one.
            let package = package.map_or(Key::Id(package_id.unwrap_or_default()), Key::Set);
            let die = die.map_or_else(|| package.clone(), Key::Set);
            let cache = self.outer_cache(&at, id, online);
            let cache = cache.map_or_else(
                || {
                    // without caches: what shares a node and a die shares most
                    let node = node.map(|node| node.id.get());
                    Key::Pair(node, Box::new(die.clone()))
                },
                Key::Set,
            );
            cpus.push(Cpu {
                id,
                node: node.map(|node| node.id),
                package: packages.number(package),
                die: dies.number(die),
                l3: caches.number(cache),
                core: cores.number(Key::Set(core.unwrap_or(alone))),
                smt: 0,
            });
        }
        Topology::rank_threads(&mut cpus);
        cpus
    }

    /// The online CPUs that share something with a CPU: the first of the files that there is.
    fn shared(
        &mut self,
        topology: &Path,
        names: &[(&str, &str)],
        id: u32,
        online: &CpuSet,
    ) -> Option<CpuSet> {
        names
            .iter()
            .find_map(|(list, map)| self.set(topology, list, map))
            .map(|set| set.intersection(online))
            .filter(|set| set.contains(id))
    }

    /// The CPUs that share this one's outermost data cache, where that is a third level or beyond.
    fn outer_cache(&mut self, cpu: &Path, id: u32, online: &CpuSet) -> Option<CpuSet> {
        let folder = cpu.join("cache");
        let mut best: Option<(u32, CpuSet)> = None;
        for index in self.numbered(&folder, "index") {
            let at = folder.join(format!("index{index}"));
            let level: u32 = self.text(&at.join("level"))?.parse().ok()?;
            let kind = self.text(&at.join("type")).unwrap_or_default();
            if level < 3 || kind == "Instruction" {
                continue;
            }
            let Some(set) = self.set(&at, "shared_cpu_list", "shared_cpu_map") else {
                continue;
            };
            let set = set.intersection(online);
            if set.contains(id) && best.as_ref().is_none_or(|(outer, _)| level > *outer) {
                best = Some((level, set));
            }
        }
        best.map(|(_, set)| set)
    }

    fn block_bytes(&self) -> Option<u64> {
        let text = self.text(&self.system.join("memory/block_size_bytes"))?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
    }

    /// Allowed CPUs and nodes, where something says.
    fn allowed(&mut self, root: &Path) -> (Option<CpuSet>, Option<CpuSet>) {
        let status = root.join("proc/self/status");
        let mut found = [None, None];
        if let Some(text) = self.text(&status) {
            for (slot, key) in found
                .iter_mut()
                .zip(["Cpus_allowed_list:", "Mems_allowed_list:"])
            {
                let value = text.lines().find_map(|line| line.strip_prefix(key));
                match value.map(CpuSet::parse_list) {
                    Some(Ok(set)) => *slot = Some(set),
                    Some(Err(error)) => self.notes.push(Note::Unreadable {
                        path: status.clone(),
                        reason: error.to_string(),
                    }),
                    None => {}
                }
            }
            let [cpus, nodes] = found;
            return (cpus, nodes);
        }
        let group = root.join("sys/fs/cgroup/cpuset");
        let mut read = |names: [&str; 2]| {
            names
                .into_iter()
                .find_map(|name| self.set(&group, name, name))
                .filter(|set| !set.is_empty())
        };
        (
            read(["cpuset.effective_cpus", "cpuset.cpus"]),
            read(["cpuset.effective_mems", "cpuset.mems"]),
        )
    }
}

/// What makes CPUs one group.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Set(CpuSet),
    Id(String),
    Pair(Option<u16>, Box<Key>),
}

/// Numbers groups in the order in which they are met.
struct Groups<K> {
    numbers: HashMap<K, u32>,
}

impl<K> Default for Groups<K> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq> Groups<K> {
    fn number(&mut self, key: K) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(key).or_insert(next)
    }
}

/// Sorted numbers as half-open ranges.
fn ranges(ids: &[u64]) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    for &id in ids {
        match found.last_mut() {
            Some(last) if last.end == id => last.end = id.saturating_add(1),
            _ => found.push(id..id.saturating_add(1)),
        }
    }
    found
}

/// A line `NAME  n kB`, also one that starts with `Node 3`.
fn meminfo_bytes(path: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.contains(name))?;
    let (_, value) = line.split_once(name)?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}
