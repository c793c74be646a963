//! What a report says of a host.

use crate::record::Host;

/// A host in words.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct HostView {
    pub(in crate::report) name: String,
    pub(in crate::report) facts: Vec<(&'static str, String)>,
    pub(in crate::report) mitigations: Vec<(String, String)>,
}

impl HostView {
    pub(super) fn of(name: &str, host: &Host) -> Self {
        let nodes: Vec<String> = host
            .nodes
            .iter()
            .map(|node| {
                format!(
                    "node {}: CPUs {} ({} of them ours), {}",
                    node.node,
                    node.cpus,
                    node.allowed,
                    bytes(node.memory)
                )
            })
            .collect();
        let boot: Vec<String> = host
            .boot
            .iter()
            .map(|init| match init.pages {
                Some(pages) => format!("node {}: {pages} pages in {} ms", init.node, init.ms),
                None => format!("node {}: {} ms", init.node, init.ms),
            })
            .collect();
        let facts = [
            ("Processor", host.cpu.clone()),
            (
                "CPUs",
                format!(
                    "{} that we may run on, {} online; {}, {}, {} outermost {}{}",
                    host.cpus,
                    host.online_cpus,
                    count(host.packages, "package"),
                    count(host.cores, "core"),
                    host.l3_groups,
                    if host.l3_groups == 1 {
                        "cache"
                    } else {
                        "caches"
                    },
                    match host.cache {
                        0 => String::new(),
                        size => format!(" of {}", bytes(size)),
                    }
                ),
            ),
            ("Memory", bytes(host.memory)),
            ("Nodes", nodes.join("; ")),
            ("Distances", distances(&host.distances)),
            ("Topology from", host.topology.clone()),
            (
                "Kernel",
                format!("{} {}", host.kernel, host.machine)
                    .trim()
                    .to_owned(),
            ),
            ("Transparent huge pages", host.huge_pages.clone()),
            ("Governor", host.governor.clone()),
            ("NUMA balancing", host.numa_balancing.clone()),
            (
                "Virtual machine",
                match (host.virtual_machine, host.hypervisor.as_str()) {
                    (false, _) => "no".to_owned(),
                    (true, "") => "yes".to_owned(),
                    (true, hypervisor) => format!("yes, {hypervisor}"),
                },
            ),
            ("Deferred initialisation at its own boot", boot.join("; ")),
            (
                "Measured with",
                format!("deferred-init {}, commit {}", host.version, host.commit),
            ),
        ];
        Self {
            name: name.to_owned(),
            facts: facts
                .into_iter()
                .map(|(what, value)| match value.trim() {
                    "" => (what, "not known".to_owned()),
                    _ => (what, value),
                })
                .collect(),
            mitigations: host
                .mitigations
                .iter()
                .map(|mitigation| (mitigation.flaw.clone(), mitigation.state.clone()))
                .collect(),
        }
    }
}

fn distances(rows: &[Vec<u32>]) -> String {
    let rows: Vec<String> = rows
        .iter()
        .map(|row| {
            let row: Vec<String> = row.iter().map(u32::to_string).collect();
            row.join(" ")
        })
        .collect();
    rows.join(" / ")
}

/// `1 core`, `2 cores`.
pub(in crate::report) fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// Bytes in the unit that suits them.
pub(in crate::report) fn bytes(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match value.fract() {
        0.0 => format!("{value} {}", units[unit]),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn what_a_host_does_not_say_is_said_to_be_unknown() {
        let view = HostView::of("host", &synthetic::record().host);
        let fact = |what: &str| {
            let found = view.facts.iter().find(|fact| fact.0 == what);
            found.map(|fact| fact.1.as_str())
        };
        assert_eq!(fact("Governor"), Some("not known"));
        assert_eq!(fact("Memory"), Some("8 GiB"));
        assert_eq!(
            fact("Nodes"),
            Some("node 0: CPUs 0-1 (2 of them ours), 8 GiB")
        );
        assert_eq!(fact("Virtual machine"), Some("no"));
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(300 << 20), "300 MiB");
        assert_eq!(bytes((3 << 40) + (1 << 39)), "3.5 TiB");
    }
}
