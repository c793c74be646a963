//! Values of factors, as people write them.

use std::fmt;
use std::str::FromStr;

use deferred_init::Topology;
use deferred_init::engine::Placement;
use deferred_init::policy::Policy;
use deferred_init::schedule::{self, Scheduler};
use memblock::NodeId;
use memmap_core::writers::{self, PageWriter};

/// A value that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}; allowed: {allowed}")]
pub struct Unknown {
    /// What was written.
    pub text: String,
    /// What should have been named.
    pub what: &'static str,
    /// What there is.
    pub allowed: String,
}

fn unknown(what: &'static str, text: &str, allowed: impl Into<String>) -> Unknown {
    Unknown {
        text: text.to_owned(),
        what,
        allowed: allowed.into(),
    }
}

/// Numbers of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Threads {
    /// This number.
    Count(usize),
    /// From 1 to a number, one by one.
    UpTo(usize),
    /// From 1 to all allowed CPUs, one by one.
    UpToAll,
    /// 1, 2, 4, … and all allowed CPUs.
    PowersOfTwo,
    /// The CPUs of one node, of two nodes, … of all.
    PerNode,
    /// All allowed CPUs.
    All,
}

impl Threads {
    /// What may be written.
    pub const ALLOWED: &'static str =
        "a number from 1, `1..=8`, `1..=N` (all CPUs), `powers-of-two`, `per-node`, `all`";

    /// The numbers for a host with `cpus`: how many CPUs each node has that may be used.
    pub fn counts(self, cpus: &[usize]) -> Vec<usize> {
        let all: usize = cpus.iter().sum::<usize>().max(1);
        match self {
            Self::Count(count) => vec![count],
            Self::UpTo(last) => (1..=last).collect(),
            Self::UpToAll => (1..=all).collect(),
            Self::PowersOfTwo => doubling(all),
            Self::PerNode => cpus
                .iter()
                .filter(|cpus| **cpus > 0)
                .scan(0, |sum, cpus| {
                    *sum += cpus;
                    Some(*sum)
                })
                .collect(),
            Self::All => vec![all],
        }
    }
}

/// 1, 2, 4, … and `most` itself.
fn doubling(most: usize) -> Vec<usize> {
    let mut threads: Vec<usize> = std::iter::successors(Some(1_usize), |n| n.checked_mul(2))
        .take_while(|&n| n < most)
        .collect();
    threads.push(most.max(1));
    threads
}

impl FromStr for Threads {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let wrong = || unknown("number of threads", text, Self::ALLOWED);
        let count = |text: &str| match text.parse() {
            Ok(0) | Err(_) => Err(wrong()),
            Ok(count) => Ok(count),
        };
        match text {
            "1..=N" => Ok(Self::UpToAll),
            "powers-of-two" => Ok(Self::PowersOfTwo),
            "per-node" => Ok(Self::PerNode),
            "all" => Ok(Self::All),
            _ => match text.strip_prefix("1..=") {
                Some(last) => count(last).map(Self::UpTo),
                None => count(text).map(Self::Count),
            },
        }
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::UpTo(last) => write!(f, "1..={last}"),
            Self::UpToAll => f.write_str("1..=N"),
            Self::PowersOfTwo => f.write_str("powers-of-two"),
            Self::PerNode => f.write_str("per-node"),
            Self::All => f.write_str("all"),
        }
    }
}

/// Nodes that threads sit on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Nodes {
    /// All that have CPUs.
    All,
    /// Each alone, one after the other.
    Each,
    /// These together.
    These(Vec<u16>),
}

impl Nodes {
    /// What may be written.
    pub const ALLOWED: &'static str = "`all`, `each`, or node numbers such as `0` or `0,1`";

    /// The sets of nodes on a host; an empty set is all of them.
    pub fn sets(&self, topology: &Topology) -> Vec<Vec<u64>> {
        match self {
            Self::All => vec![Vec::new()],
            Self::Each => topology
                .nodes
                .iter()
                .filter(|node| {
                    node.cpus
                        .iter()
                        .any(|cpu| topology.allowed_cpus.contains(cpu))
                })
                .map(|node| vec![u64::from(node.id.get())])
                .collect(),
            Self::These(nodes) => vec![nodes.iter().map(|node| u64::from(*node)).collect()],
        }
    }
}

impl FromStr for Nodes {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        match text {
            "all" => return Ok(Self::All),
            "each" => return Ok(Self::Each),
            _ => {}
        }
        let mut nodes = text
            .split(',')
            .map(|node| node.trim().parse())
            .collect::<Result<Vec<u16>, _>>()
            .map_err(|_| unknown("set of nodes", text, Self::ALLOWED))?;
        nodes.sort_unstable();
        nodes.dedup();
        Ok(Self::These(nodes))
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Each => f.write_str("each"),
            Self::These(nodes) => {
                let nodes: Vec<String> = nodes.iter().map(u16::to_string).collect();
                f.write_str(&nodes.join(","))
            }
        }
    }
}

/// Where struct pages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// As the engine places them.
    By(Placement),
    /// All on this node of the host.
    Node(NodeId),
}

impl Place {
    /// Where they are first touched.
    pub const FIRST_TOUCH: Self = Self::By(Placement::FirstTouch);
    /// What may be written.
    pub const ALLOWED: &'static str = "`first-touch`, `local` (bound to the own node, in records `bind`), `interleave`, `remote`, `node:N`";
}

impl FromStr for Place {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        if text == "local" {
            return Ok(Self::By(Placement::Bind));
        }
        let node = text
            .strip_prefix("node:")
            .and_then(|node| node.parse().ok());
        let place = Placement::ALL
            .into_iter()
            .find(|place| place.name() == text)
            .map(Self::By)
            .or(node.map(|node| Self::Node(NodeId::new(node))));
        place.ok_or_else(|| unknown("placement", text, Self::ALLOWED))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(placement) => f.write_str(placement.name()),
            Self::Node(node) => write!(f, "node:{}", node.get()),
        }
    }
}

/// Pages behind struct pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pages {
    /// As the system is set up.
    System,
    /// Small ones: huge pages are forbidden.
    Small,
    /// Transparent huge pages are asked for.
    Transparent,
    /// Huge pages of the reserved pool.
    Hugetlb,
}

impl Pages {
    /// All that there are.
    pub const ALL: [Self; 4] = [Self::System, Self::Small, Self::Transparent, Self::Hugetlb];

    /// The name by which users choose it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Small => "4K",
            Self::Transparent => "thp",
            Self::Hugetlb => "hugetlb",
        }
    }
}

impl FromStr for Pages {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let mut all = Self::ALL.into_iter();
        all.find(|pages| pages.name() == text)
            .ok_or_else(|| unknown("kind of pages", text, ticked(Self::ALL.map(Self::name))))
    }
}

/// A page writer by its name.
///
/// # Errors
/// [`Unknown`] with the names that there are.
pub fn writer(name: &str) -> Result<&'static dyn PageWriter, Unknown> {
    writers::by_name(name).ok_or_else(|| {
        let names = writers::all().iter().map(|writer| writer.name());
        unknown("page writer", name, ticked(names))
    })
}

/// A scheduler by its name.
///
/// # Errors
/// [`Unknown`] with the names that there are.
pub fn scheduler(name: &str) -> Result<&'static dyn Scheduler, Unknown> {
    schedule::by_name(name).ok_or_else(|| {
        let names = schedule::all().iter().map(|scheduler| scheduler.name());
        unknown("scheduler", name, ticked(names))
    })
}

/// A policy by its name.
///
/// # Errors
/// [`Unknown`] with the names that there are.
pub fn policy(name: &str) -> Result<Policy, Unknown> {
    Policy::by_name(name)
        .ok_or_else(|| unknown("policy", name, ticked(Policy::ALL.map(Policy::name))))
}

pub(super) fn ticked(names: impl IntoIterator<Item = &'static str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_say_threads_gives_numbers() {
        let of = |text: &str, cpus: &[usize]| text.parse::<Threads>().unwrap().counts(cpus);
        assert_eq!(of("3", &[8]), [3]);
        assert_eq!(of("1..=3", &[8]), [1, 2, 3]);
        assert_eq!(of("1..=N", &[2, 2]), [1, 2, 3, 4]);
        assert_eq!(of("powers-of-two", &[6]), [1, 2, 4, 6]);
        assert_eq!(of("powers-of-two", &[1]), [1]);
        assert_eq!(of("powers-of-two", &[4, 4]), [1, 2, 4, 8]);
        assert_eq!(of("per-node", &[4, 0, 2]), [4, 6]);
        assert_eq!(of("all", &[4, 2]), [6]);
        for wrong in ["0", "-1", "1..8", "1..=0", "many", ""] {
            let error = wrong.parse::<Threads>().unwrap_err().to_string();
            assert!(error.contains("powers-of-two"), "{error}");
        }
    }

    #[test]
    fn every_value_is_read_as_it_is_printed() {
        for text in ["first-touch", "bind", "interleave", "remote", "node:3"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        assert_eq!("local".parse::<Place>().unwrap().to_string(), "bind");
        for text in ["all", "each", "0", "0,3"] {
            assert_eq!(text.parse::<Nodes>().unwrap().to_string(), text);
        }
        for pages in Pages::ALL {
            assert_eq!(pages.name().parse(), Ok(pages));
        }
        for one in Policy::ALL {
            assert_eq!(policy(one.name()), Ok(one));
        }
        assert!("node:x".parse::<Place>().is_err());
        assert!("0,x".parse::<Nodes>().is_err());
    }
}
