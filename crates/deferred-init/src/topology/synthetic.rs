//! Hosts described by a text.
//!
//! A text is a list of levels, outermost first, each inside every object of the level before it:
//!
//! ```text
//! pack:2 die:2 numa(memory=384G) core:26 pu:2
//! ```
//!
//! A level is `KIND`, `KIND:COUNT` (the count is per enclosing object, 1 if left out), with
//! attributes in parentheses. Kinds: `pack`, `die`, `numa`, `l3`, `core`, `pu`. Levels that are left
//! out have one object per enclosing one; `pu` and `core` come last, in the order core, pu.
//!
//! | attribute | meaning |
//! |---|---|
//! | `numa(memory=384G)` | memory a node; `memory=1G+2560M` gives one size a node in turn |
//! | `+numa(memory=512G)` | a memory-only node beside what the level encloses |
//! | `ids(0-1,4-5)` | numbers of the nodes, instead of 0, 1, … |
//! | `numbering(smt-last)` | CPU numbers: all first threads, then all second ones (x86) |
//! | `numbering(nodes)` | CPU numbers go round the nodes, first threads before second ones |
//! | `distance(10,12,21)` | own memory, same package, other package |
//! | `matrix(10,21/21,10)` | distances by row |
//! | `blocks(128M)` | size of a memory block |
//!
//! Memory-only nodes are numbered after those with CPUs.

use memblock::NodeId;

use super::{Cpu, Node, Source, Topology};
use crate::CpuSet;

/// More CPUs or nodes than this are refused: it is a typing error, not a host.
const MOST: u64 = 1 << 16;

/// Why a text describes no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntheticError {
    /// A word that the grammar does not know.
    #[error(
        "{word:?} is no level or setting; levels are pack die numa l3 core pu, for one `pack:2 numa(memory=4G) core:4`"
    )]
    UnknownWord {
        /// The word.
        word: String,
    },
    /// A number or size that cannot be read, is zero, or is far too large.
    #[error("{value:?} in {word:?} is no {wanted}")]
    BadValue {
        /// The value.
        value: String,
        /// The word that it stands in.
        word: String,
        /// What it should have been.
        wanted: &'static str,
    },
    /// A level that comes twice, or outside of one that it encloses.
    #[error("{word:?} comes after a level that lies inside it, or twice")]
    BadOrder {
        /// The word.
        word: String,
    },
    /// A parenthesis that is not closed.
    #[error("a parenthesis in {text:?} is not closed")]
    Unclosed {
        /// All of the text.
        text: String,
    },
    /// Node numbers or a matrix that do not fit the number of nodes.
    #[error("{word:?} is for {given} nodes, the host has {nodes}")]
    WrongCount {
        /// The word.
        word: String,
        /// Nodes that it is for.
        given: usize,
        /// Nodes that there are.
        nodes: usize,
    },
}

/// How CPUs are numbered.
#[derive(Clone, Copy, Default, PartialEq)]
enum Numbering {
    /// As the tree is walked.
    #[default]
    Tree,
    /// First threads of all cores, then second ones.
    SmtLast,
    /// Round the nodes; first threads, then second ones.
    Nodes,
}

#[derive(Default)]
struct Description {
    // pack, die, numa, l3, core, pu
    counts: [Option<u64>; 6],
    memory: Vec<u64>,
    // memory of a memory-only node, and the place of the level it stands beside
    beside: Vec<(u64, usize)>,
    ids: Option<CpuSet>,
    numbering: Numbering,
    distance: Option<[u32; 3]>,
    matrix: Option<Vec<Vec<u32>>>,
    block_bytes: Option<u64>,
}

const PACK: usize = 0;
const NUMA: usize = 2;
const PU: usize = 5;

/// Builds the host that `text` describes.
///
/// # Errors
/// [`SyntheticError`].
pub fn parse(text: &str) -> Result<Topology, SyntheticError> {
    let description = read(text)?;
    build(&description, text)
}

fn read(text: &str) -> Result<Description, SyntheticError> {
    let mut found = Description::default();
    let mut inner = 0;
    for word in words(text)? {
        let bad = |value: &str, wanted| SyntheticError::BadValue {
            value: value.to_owned(),
            word: word.clone(),
            wanted,
        };
        let (head, attributes) = match word.split_once('(') {
            Some((head, rest)) => (head, rest.trim_end_matches(')')),
            None => (word.as_str(), ""),
        };
        let (kind, count) = match head.split_once(':') {
            Some((kind, count)) => (kind, count),
            None => (head, "1"),
        };
        let level = match kind {
            "pack" | "package" | "socket" => PACK,
            "die" => 1,
            "numa" | "node" => NUMA,
            "l3" => 3,
            "core" => 4,
            "pu" => PU,
            "+numa" => {
                let memory = attributes.strip_prefix("memory=").unwrap_or(attributes);
                let bytes = size(memory).ok_or_else(|| bad(memory, "size such as 512G"))?;
                found.beside.push((bytes, inner));
                continue;
            }
            "ids" => {
                let ids = CpuSet::parse_list(attributes);
                found.ids = Some(ids.map_err(|_| bad(attributes, "list of node numbers"))?);
                continue;
            }
            "numbering" => {
                found.numbering = match attributes {
                    "tree" => Numbering::Tree,
                    "smt-last" => Numbering::SmtLast,
                    "nodes" => Numbering::Nodes,
                    other => return Err(bad(other, "tree, smt-last or nodes")),
                };
                continue;
            }
            "distance" => {
                let row = numbers(attributes).and_then(|row| <[u32; 3]>::try_from(row).ok());
                found.distance = Some(row.ok_or_else(|| bad(attributes, "three distances"))?);
                continue;
            }
            "matrix" => {
                let rows: Option<Vec<_>> = attributes.split('/').map(numbers).collect();
                found.matrix = Some(rows.ok_or_else(|| bad(attributes, "rows of distances"))?);
                continue;
            }
            "blocks" => {
                let bytes = size(attributes).filter(|bytes| *bytes > 0);
                found.block_bytes = Some(bytes.ok_or_else(|| bad(attributes, "size"))?);
                continue;
            }
            _ => return Err(SyntheticError::UnknownWord { word }),
        };
        if found.counts[level..].iter().any(Option::is_some) {
            return Err(SyntheticError::BadOrder { word });
        }
        let number = count.parse().ok().filter(|n| (1..=MOST).contains(n));
        found.counts[level] = Some(number.ok_or_else(|| bad(count, "count from 1"))?);
        inner = level + 1;
        if level == NUMA && !attributes.is_empty() {
            let sizes = attributes
                .strip_prefix("memory=")
                .and_then(|list| list.split('+').map(size).collect::<Option<Vec<_>>>());
            found.memory = sizes.ok_or_else(|| bad(attributes, "memory=SIZE"))?;
        } else if !attributes.is_empty() {
            return Err(bad(attributes, "attribute of this level"));
        }
    }
    Ok(found)
}

/// The words of a text; blanks inside parentheses do not part them.
fn words(text: &str) -> Result<Vec<String>, SyntheticError> {
    let mut words = vec![String::new()];
    let mut inside = false;
    for c in text.chars() {
        match c {
            '(' if !inside => inside = true,
            ')' if inside => inside = false,
            c if c.is_whitespace() && !inside => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(word) = words.last_mut()
            && !c.is_whitespace()
        {
            word.push(c);
        }
    }
    if inside {
        return Err(SyntheticError::Unclosed {
            text: text.to_owned(),
        });
    }
    words.retain(|word| !word.is_empty());
    Ok(words)
}

fn numbers(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|word| word.parse().ok()).collect()
}

/// Bytes, or with one of the suffixes K, M, G, T.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.chars().last()? {
        'K' | 'k' => (&text[..text.len() - 1], 10),
        'M' | 'm' => (&text[..text.len() - 1], 20),
        'G' | 'g' => (&text[..text.len() - 1], 30),
        'T' | 't' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn build(description: &Description, text: &str) -> Result<Topology, SyntheticError> {
    let too_many = || SyntheticError::BadValue {
        value: text.to_owned(),
        word: text.to_owned(),
        wanted: "host of at most 65536 CPUs",
    };
    let counts = description.counts.map(|count| count.unwrap_or(1));
    // how many objects of each level there are, and of those outside the first
    let mut totals = [1; 7];
    for level in 0..counts.len() {
        let total: u64 = totals[level];
        let total = total.checked_mul(counts[level]).filter(|n| *n <= MOST);
        totals[level + 1] = total.ok_or_else(too_many)?;
    }
    let total = totals[PU + 1];
    let per = |level: usize| total / totals[level + 1];
    let with_cpus = totals[NUMA + 1] as usize;
    let mut only_memory = Vec::new();
    for &(bytes, level) in &description.beside {
        only_memory
            .extend((0..totals[level]).map(|at| (bytes, at * totals[1] / totals[level].max(1))));
    }
    let node_count = with_cpus + only_memory.len();
    let ids: Vec<NodeId> = match &description.ids {
        None => (0..node_count).map(|id| NodeId::new(id as u16)).collect(),
        Some(ids) if ids.len() == node_count => {
            ids.iter().map(|id| NodeId::new(id as u16)).collect()
        }
        Some(ids) => {
            return Err(SyntheticError::WrongCount {
                word: format!("ids({ids})"),
                given: ids.len(),
                nodes: node_count,
            });
        }
    };
    let mut order: Vec<u64> = (0..total).collect();
    let smt = |at: u64| at % counts[PU];
    match description.numbering {
        Numbering::Tree => {}
        Numbering::SmtLast => order.sort_by_key(|at| smt(*at)),
        Numbering::Nodes => order.sort_by_key(|at| (smt(*at), at % per(NUMA), at / per(NUMA))),
    }
    let mut cpus: Vec<Cpu> = order
        .iter()
        .enumerate()
        .map(|(id, at)| Cpu {
            id: id as u32,
            node: Some(ids[(at / per(NUMA)) as usize]),
            package: (at / per(PACK)) as u32,
            die: (at / per(1)) as u32,
            l3: (at / per(3)) as u32,
            core: (at / per(4)) as u32,
            smt: 0,
        })
        .collect();
    Topology::rank_threads(&mut cpus);
    renumber(&mut cpus);
    let memory = |index: usize| match description.memory.len() {
        0 => 0,
        count => description.memory[index % count],
    };
    let mut nodes: Vec<Node> = ids
        .iter()
        .enumerate()
        .map(|(index, &id)| Node {
            id,
            cpus: cpus
                .iter()
                .filter(|cpu| cpu.node == Some(id))
                .map(|cpu| cpu.id)
                .collect(),
            memory: match index.checked_sub(with_cpus) {
                None => memory(index),
                Some(beside) => only_memory[beside].0,
            },
            blocks: Vec::new(),
        })
        .collect();
    if let Some(bytes) = description.block_bytes {
        let mut next = 0;
        for node in &mut nodes {
            let count = node.memory.div_ceil(bytes);
            node.blocks
                .extend((count > 0).then_some(next..next + count));
            next += count;
        }
    }
    let package = |index: usize| match index.checked_sub(with_cpus) {
        None => index as u64 / (totals[NUMA + 1] / totals[PACK + 1]).max(1),
        Some(beside) => only_memory[beside].1,
    };
    let distances = match &description.matrix {
        Some(rows) => {
            let square = rows.len() == node_count && rows.iter().all(|row| row.len() == node_count);
            if !square {
                return Err(SyntheticError::WrongCount {
                    word: "matrix".to_owned(),
                    given: rows.len(),
                    nodes: node_count,
                });
            }
            rows.clone()
        }
        None => {
            let [own, near, far] = description.distance.unwrap_or([10, 12, 21]);
            let of = |a: usize, b: usize| match (a == b, package(a) == package(b)) {
                (true, _) => own,
                (_, true) => near,
                _ => far,
            };
            (0..node_count)
                .map(|a| (0..node_count).map(|b| of(a, b)).collect())
                .collect()
        }
    };
    Ok(Topology {
        source: Source::Synthetic(text.to_owned()),
        allowed_cpus: cpus.iter().map(|cpu| cpu.id).collect(),
        allowed_nodes: ids.iter().map(|id| u32::from(id.get())).collect(),
        cpus,
        offline: CpuSet::new(),
        nodes,
        distances,
        block_bytes: description.block_bytes,
        is_host: false,
        notes: Vec::new(),
    })
}

/// Numbers packages, dies, caches and cores by their lowest CPU, as every provider does.
fn renumber(cpus: &mut [Cpu]) {
    fn of(cpu: &mut Cpu, level: usize) -> &mut u32 {
        match level {
            0 => &mut cpu.package,
            1 => &mut cpu.die,
            2 => &mut cpu.l3,
            _ => &mut cpu.core,
        }
    }
    for level in 0..4 {
        let mut seen = std::collections::HashMap::new();
        for cpu in cpus.iter_mut() {
            let next = seen.len() as u32;
            let number = of(cpu, level);
            *number = *seen.entry(*number).or_insert(next);
        }
    }
}
