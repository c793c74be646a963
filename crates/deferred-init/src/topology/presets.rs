//! Hosts by name: machines whose shape is known from their boot logs and vendors' sheets.

use super::{Source, Topology, synthetic};

/// A named host.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    text: &'static str,
    // half-open ranges of memory blocks a node, where they are not simply one after another
    blocks: &'static [&'static [(u64, u64)]],
}

/// All presets, by name.
pub const ALL: &[Preset] = &[
    Preset {
        name: "arm64-128",
        about: "2 packages, 4 nodes, 128 cores without SMT, uneven distances",
        text: "pack:2 numa:2(memory=128G) core:32 matrix(10,16,32,33/16,10,25,32/32,25,10,16/33,32,16,10)",
        blocks: &[],
    },
    Preset {
        name: "epyc-nps4",
        about: "2-socket EPYC, 4 nodes a socket, 2 L3 groups a node, 256 CPUs",
        text: "pack:2 numa:4(memory=64G) l3:2 core:8 pu:2 numbering(smt-last) distance(10,12,32)",
        blocks: &[],
    },
    Preset {
        name: "opteron-8n",
        about: "8-node Opteron, 2 GiB memory blocks shared by neighbouring nodes",
        text: "pack:4 numa:2(memory=31G+32G+32G+32G+32G+32G+32G+32G) core:8 distance(10,16,22) blocks(2G)",
        // a node ends 1 GiB inside a block, where the next one starts
        blocks: &[
            &[(0, 16)],
            &[(15, 32)],
            &[(31, 48)],
            &[(47, 64)],
            &[(63, 80)],
            &[(79, 96)],
            &[(95, 112)],
            &[(111, 128)],
        ],
    },
    Preset {
        name: "power-8n",
        about: "Power, nodes 0,1,4,5,8,9,12,13, 8 cores of 4 threads each",
        text: "pack:4 numa:2(memory=64G) core:8 pu:4 ids(0-1,4-5,8-9,12-13) distance(10,20,40)",
        blocks: &[],
    },
    Preset {
        name: "snc-pmem",
        about: "2-socket Xeon in sub-NUMA clusters, a memory-only node of persistent memory a socket",
        text: "pack:2 +numa(memory=512G) numa:2(memory=96G) core:14 pu:2 numbering(smt-last) distance(10,11,21)",
        blocks: &[],
    },
    Preset {
        name: "superdome-64n",
        about: "64 nodes of 16 cores of 2 threads, 2048 CPUs, 64 TiB",
        text: "pack:64 numa(memory=1T) core:16 pu:2 numbering(smt-last) distance(10,12,40)",
        blocks: &[],
    },
    Preset {
        name: "xeon-8167m",
        about: "2-socket Xeon 8167M, 384 GiB a node, 104 CPUs",
        text: "pack:2 numa(memory=384G) core:26 pu:2 numbering(smt-last) distance(10,12,21)",
        blocks: &[],
    },
    Preset {
        name: "xeon-4s-512g",
        about: "4-socket Xeon, 128 GiB a node, CPUs in turn over the nodes, no memory at 2 to 4 GiB",
        text: "pack:4 numa(memory=128G) core:10 numbering(nodes) distance(10,12,20) blocks(128M)",
        blocks: &[
            &[(0, 16), (32, 1040)],
            &[(1040, 2064)],
            &[(2064, 3088)],
            &[(3088, 4112)],
        ],
    },
    Preset {
        name: "xeon-8s-448",
        about: "8-socket Xeon, 28 cores of 2 threads a socket, 448 CPUs, 1.5 TiB a node",
        text: "pack:8 numa(memory=1536G) core:28 pu:2 numbering(smt-last) distance(10,12,31)",
        blocks: &[],
    },
];

impl Preset {
    /// The host.
    ///
    /// # Errors
    /// None for a preset of [`ALL`]; the type says it for those who build on [`synthetic::parse`].
    pub fn topology(&self) -> Result<Topology, synthetic::SyntheticError> {
        let mut topology = synthetic::parse(self.text)?;
        for (node, blocks) in topology.nodes.iter_mut().zip(self.blocks) {
            node.blocks = blocks.iter().map(|&(start, end)| start..end).collect();
        }
        topology.source = Source::Preset(self.name);
        Ok(topology)
    }
}

/// A preset by its name.
pub fn by_name(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}
