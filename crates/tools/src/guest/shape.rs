//! The nodes of the emulated machine.

use std::fmt;
use std::ops::Range;

/// A node of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestNode {
    /// Its CPUs, half-open.
    pub cpus: Range<u32>,
    /// Its memory in MiB.
    pub mebibytes: u64,
}

/// The nodes of the machine, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The nodes.
    pub nodes: Vec<GuestNode>,
}

impl Shape {
    /// Nodes of different sizes; the first has two CPUs, the last of more than two has none.
    pub fn uneven(nodes: u16) -> Self {
        let mut next = 0;
        let nodes = (0..nodes)
            .map(|node| {
                let count = match node {
                    0 => 2,
                    last if nodes > 2 && last == nodes - 1 => 0,
                    _ => 1,
                };
                let cpus = next..next + count;
                next = cpus.end;
                GuestNode {
                    cpus,
                    mebibytes: 512 + 128 * u64::from(node % 3),
                }
            })
            .collect();
        Self { nodes }
    }

    /// Distance between two nodes: they lie on a line.
    pub fn distance(from: usize, to: usize) -> u32 {
        10 + 10 * from.abs_diff(to) as u32
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.nodes.iter().map(|node| node.cpus.len() as u32).sum()
    }

    /// Number of nodes that have CPUs.
    pub fn with_cpus(&self) -> usize {
        let has = |node: &&GuestNode| !node.cpus.is_empty();
        self.nodes.iter().filter(has).count()
    }

    /// QEMU's arguments for it.
    pub fn qemu(&self) -> Vec<String> {
        let memory: u64 = self.nodes.iter().map(|node| node.mebibytes).sum();
        let mut args = vec![
            "-m".to_owned(),
            format!("{memory}M"),
            "-smp".to_owned(),
            self.cpus().to_string(),
        ];
        for (id, node) in self.nodes.iter().enumerate() {
            let size = node.mebibytes;
            args.push("-object".to_owned());
            args.push(format!(
                "memory-backend-ram,id=m{id},size={size}M,reserve=off"
            ));
            let cpus = match node.cpus.is_empty() {
                true => String::new(),
                false => format!(",cpus={}-{}", node.cpus.start, node.cpus.end - 1),
            };
            args.push("-numa".to_owned());
            args.push(format!("node,nodeid={id}{cpus},memdev=m{id}"));
        }
        for from in 0..self.nodes.len() {
            for to in 0..self.nodes.len() {
                if from != to {
                    let value = Self::distance(from, to);
                    args.push("-numa".to_owned());
                    args.push(format!("dist,src={from},dst={to},val={value}"));
                }
            }
        }
        args
    }

    /// As a text for the machine: `start end mebibytes` a node.
    pub fn to_text(&self) -> String {
        self.nodes
            .iter()
            .map(|node| format!("{} {} {}\n", node.cpus.start, node.cpus.end, node.mebibytes))
            .collect()
    }

    /// Reads that text.
    pub fn from_text(text: &str) -> Option<Self> {
        let nodes = text
            .lines()
            .map(|line| {
                let mut words = line.split(' ');
                Some(GuestNode {
                    cpus: words.next()?.parse().ok()?..words.next()?.parse().ok()?,
                    mebibytes: words.next()?.parse().ok()?,
                })
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self { nodes })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CPUs, nodes of", self.cpus())?;
        let mut separator = " ";
        for node in &self.nodes {
            write!(f, "{separator}{} MiB", node.mebibytes)?;
            if node.cpus.is_empty() {
                f.write_str(" without CPUs")?;
            }
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_four_nodes_has_memory_only() {
        let shape = Shape::uneven(4);
        assert_eq!(
            shape.to_string(),
            "4 CPUs, nodes of 512 MiB, 640 MiB, 768 MiB, 512 MiB without CPUs"
        );
        let args = shape.qemu().join(" ");
        assert!(args.contains("-m 2432M -smp 4"), "{args}");
        assert!(
            args.contains("-numa node,nodeid=0,cpus=0-1,memdev=m0"),
            "{args}"
        );
        assert!(args.contains("-numa node,nodeid=3,memdev=m3"), "{args}");
        assert!(args.contains("-numa dist,src=0,dst=3,val=40"), "{args}");
    }

    #[test]
    fn the_text_is_read_back() {
        let shape = Shape::uneven(6);
        assert_eq!(Shape::from_text(&shape.to_text()), Some(shape));
        assert_eq!(Shape::from_text("1 2"), None);
    }
}
