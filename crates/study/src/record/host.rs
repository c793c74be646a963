//! What a record says of the host that it was made on.

use deferred_init::Topology;
use serde::{Deserialize, Serialize};

/// The host of a run. A text is empty, a list empty and a number 0 where the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// Its name in the network.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture.
    pub machine: String,
    /// Processor model.
    pub cpu: String,
    /// CPUs that we may run on.
    pub cpus: u64,
    /// CPUs that are online.
    pub online_cpus: u64,
    /// Packages (sockets).
    pub packages: u64,
    /// Cores.
    pub cores: u64,
    /// Groups of CPUs that share the outermost cache.
    pub l3_groups: u64,
    /// Bytes of the outermost cache, as the system has it.
    pub cache: u64,
    /// NUMA nodes.
    pub nodes: Vec<HostNode>,
    /// Distances, a row a node in the order of `nodes`; 0 where unknown.
    pub distances: Vec<Vec<u32>>,
    /// Where the topology was read.
    pub topology: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Setting of transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: String,
    /// Frequency governors of its CPUs, each once.
    pub governor: String,
    /// Automatic NUMA balancing: `0` off, `1` on, further bits as the kernel has them.
    pub numa_balancing: String,
    /// What the kernel does against flaws of the processor.
    pub mitigations: Vec<Mitigation>,
    /// Whether a hypervisor runs below.
    pub virtual_machine: bool,
    /// Which one, by the firmware's tables.
    pub hypervisor: String,
    /// What deferred initialisation took when this host itself booted, where its log says.
    pub boot: Vec<BootInit>,
    /// Our own version.
    pub version: String,
    /// The commit that we were built from, with `+` where the tree had changes.
    pub commit: String,
}

/// A NUMA node of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostNode {
    /// The system's number.
    pub node: u64,
    /// Its CPUs, as a list such as `0-3,8`.
    pub cpus: String,
    /// How many of them we may run on.
    pub allowed: u64,
    /// Its memory, bytes.
    pub memory: u64,
}

/// A flaw of the processor and what is done against it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mitigation {
    /// The flaw.
    pub flaw: String,
    /// The kernel's words.
    pub state: String,
}

/// What the host's own kernel took to initialise a node's deferred struct pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BootInit {
    /// The node.
    pub node: u64,
    /// Struct pages, where the line says (before 5.8).
    pub pages: Option<u64>,
    /// Milliseconds.
    pub ms: u64,
}

impl Host {
    /// This host, with the `topology` that was read of it.
    pub fn read(topology: &Topology) -> Self {
        let said = sys::HostDescription::read();
        let counts = topology.counts();
        let allowed = |cpus: &deferred_init::CpuSet| {
            cpus.iter()
                .filter(|cpu| topology.allowed_cpus.contains(*cpu))
                .count() as u64
        };
        Self {
            name: said.name,
            kernel: said.kernel,
            machine: said.machine,
            cpu: said.cpu,
            cpus: topology.allowed_cpus.len() as u64,
            online_cpus: topology.cpus.len() as u64,
            packages: u64::from(counts.packages),
            cores: u64::from(counts.cores),
            l3_groups: u64::from(counts.l3_groups),
            cache: sys::last_level_cache().map_or(0, |cache| cache.bytes),
            nodes: topology
                .nodes
                .iter()
                .map(|node| HostNode {
                    node: u64::from(node.id.get()),
                    cpus: node.cpus.to_string(),
                    allowed: allowed(&node.cpus),
                    memory: node.memory,
                })
                .collect(),
            distances: topology.distances.clone(),
            topology: topology.source.to_string(),
            memory: said.memory,
            huge_pages: said.huge_pages,
            governor: said.governor,
            numa_balancing: said.numa_balancing,
            mitigations: said
                .mitigations
                .into_iter()
                .map(|(flaw, state)| Mitigation { flaw, state })
                .collect(),
            virtual_machine: said.virtual_machine,
            hypervisor: said.hypervisor,
            boot: sys::kernel_log().map_or_else(|_| Vec::new(), |log| boot(&log)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("STUDY_COMMIT").to_owned(),
        }
    }
}

/// What a kernel's log says of its own deferred initialisation.
fn boot(log: &str) -> Vec<BootInit> {
    let Ok(log) = machine::BootLog::read("kernel log", log.as_bytes()) else {
        return Vec::new();
    };
    log.figures
        .deferred_init()
        .map(|(node, pages, ms)| BootInit {
            node: u64::from(node.get()),
            pages,
            ms,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_what_its_own_initialisation_took() {
        let log = "[    0.000000] Linux version 6.12.9 (x@y) #1 SMP\n\
                   [    0.400000] node 1 deferred pages initialised in 36ms\n\
                   [    0.410000] node 0 deferred pages initialised in 32ms\n";
        let said = boot(log);
        assert_eq!(said.len(), 2);
        assert_eq!((said[0].node, said[0].ms, said[0].pages), (1, 36, None));
        assert_eq!(boot("nothing of a boot\n"), []);
    }

    #[test]
    fn this_host_has_a_kernel_cpus_and_nodes() {
        let topology = Topology::host().unwrap();
        let host = Host::read(&topology);
        assert!(!host.kernel.is_empty());
        assert!(host.cpus >= 1 && host.online_cpus >= host.cpus);
        let allowed: u64 = host.nodes.iter().map(|node| node.allowed).sum();
        assert_eq!(allowed, host.cpus, "every CPU is on one node");
        assert!(!host.commit.is_empty());
    }
}
