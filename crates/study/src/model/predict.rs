//! Other hosts, by a model of one node.

use deferred_init::Topology;

use super::Model;

/// What a model was fitted to.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    /// The host, in words.
    pub host: String,
    /// The most threads of its points, on one node.
    pub threads: f64,
    /// Bytes of struct pages that its times are of, on one node.
    pub bytes: f64,
}

/// What a host would take.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The host, in words.
    pub host: String,
    /// Threads of its largest node.
    pub threads: usize,
    /// Nodes with memory.
    pub nodes: usize,
    /// Bytes of struct pages over all nodes.
    pub bytes: u64,
    /// Time of its slowest node, in the unit of the model; 0 where no node has memory.
    pub time: f64,
    /// In what this goes beyond what the model was fitted to. Never empty for another host.
    pub extrapolates: Vec<String>,
}

/// Predicts what initialising all memory of a host takes, where each node's threads write its own
/// struct pages of `page` bytes for every 4 KiB.
///
/// Memory of nodes without CPUs is written by the threads of one node more: by the nearest.
pub fn predict(model: &Model, basis: &Basis, host: &Topology, page: u64) -> Prediction {
    let cpus = |node: &deferred_init::topology::Node| node.cpus.len();
    let workers: Vec<&deferred_init::topology::Node> =
        host.nodes.iter().filter(|node| cpus(node) > 0).collect();
    let mut shares = vec![0_u64; workers.len()];
    let (mut bytes, mut nodes, mut guests) = (0, 0, 0);
    for node in host.nodes.iter().filter(|node| node.memory > 0) {
        let own = node.memory / 4096 * page;
        bytes += own;
        nodes += 1;
        guests += usize::from(cpus(node) == 0);
        let nearest = (0..workers.len())
            .min_by_key(|at| (host.distance(node.id, workers[*at].id), workers[*at].id));
        if let Some(at) = nearest {
            shares[at] += own;
        }
    }
    let time = workers
        .iter()
        .zip(&shares)
        .map(|(node, share)| model.time(cpus(node) as f64) * *share as f64 / basis.bytes.max(1.0))
        .fold(0.0, f64::max);
    let threads = workers.iter().map(|node| cpus(node)).max().unwrap_or(0);
    let mut extrapolates = vec![format!(
        "cores and memory are taken to be as fast as those of {}",
        basis.host
    )];
    if threads as f64 > basis.threads {
        extrapolates.push(format!(
            "{threads} threads a node, of which at most {:.0} were measured",
            basis.threads
        ));
    }
    let largest = shares.iter().copied().max().unwrap_or(0) as f64;
    if basis.bytes > 0.0 && !(0.25..=4.0).contains(&(largest / basis.bytes)) {
        extrapolates.push(format!(
            "a node has {:.1} times the struct pages that were measured",
            largest / basis.bytes
        ));
    }
    if guests > 0 {
        extrapolates.push(format!(
            "{guests} nodes have memory and no CPUs: others write it, at what distance is left out"
        ));
    }
    if nodes > 1 {
        extrapolates.push(format!("{nodes} nodes are taken not to hinder each other"));
    }
    Prediction {
        host: host.source.to_string(),
        threads,
        nodes,
        bytes,
        time,
        extrapolates,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deferred_init::topology::{presets, synthetic};

    fn basis() -> Basis {
        Basis {
            host: "a small host".into(),
            threads: 8.0,
            bytes: 1e9,
        }
    }

    #[test]
    fn the_slowest_node_is_the_hosts_time() {
        let model = Model::Amdahl {
            one: 100.0,
            serial: 0.0,
        };
        let host = synthetic::parse("numa:2(memory=16G+64G) core:4").unwrap();
        let predicted = predict(&model, &basis(), &host, 64);
        // 64 GiB of 4 KiB pages have 2^30 bytes of struct pages; 4 threads take a quarter of 100 a 1e9
        let expected = 25.0 * f64::from(1 << 30) / 1e9;
        assert!((predicted.time - expected).abs() < 1e-6, "{predicted:?}");
        assert_eq!((predicted.threads, predicted.nodes), (4, 2));
    }

    #[test]
    fn every_preset_is_predicted_and_says_in_what_it_extrapolates() {
        let model = Model::roofline(1e9, 10.0, 50.0, 2.0);
        for preset in presets::ALL {
            let host = preset.topology().unwrap();
            let predicted = predict(&model, &basis(), &host, 64);
            assert!(predicted.time.is_finite(), "{}", preset.name);
            assert!(!predicted.extrapolates.is_empty());
            let more = predicted.threads > 8;
            let told = predicted
                .extrapolates
                .iter()
                .any(|text| text.contains("threads a node"));
            assert_eq!(more, told, "{}: {predicted:?}", preset.name);
        }
    }
}
