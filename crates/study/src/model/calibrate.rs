//! A study's model: one writer's times by threads.

use super::{Basis, Chosen, Errors, FitError, Held, Model, Point, choose};
use crate::analysis::{Analysis, Cell};
use crate::record::{Record, Settings};
use crate::stats;

/// Why a study has no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// Nothing of that kind was run.
    #[error("there are no runs{} to fit a model to", of(writer.as_deref()))]
    NoRuns {
        /// The page writer that was asked for.
        writer: Option<String>,
    },
    /// The runs do not make a model.
    #[error(transparent)]
    Fit(#[from] FitError),
}

fn of(writer: Option<&str>) -> String {
    writer.map_or_else(String::new, |writer| {
        format!(" of the page writer {writer:?}")
    })
}

/// The runs with one number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Threads over the whole host, and the median time, ns.
    pub point: Point,
    /// How much half of the runs differ among themselves, over the median.
    pub spread: f64,
}

/// A model that was fitted to a study on one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// What was modelled, with its fastest number of threads.
    pub settings: Settings,
    /// What it was fitted to, by ascending threads.
    pub measured: Vec<Measured>,
    /// The model of the whole host, by those; ns.
    pub chosen: Chosen,
    /// How it misses them.
    pub errors: Errors,
    /// How a model of three of them predicts the others, where there are others.
    pub held: Option<Held>,
    /// Nodes that worked at once; each is taken to have its share of threads and bytes.
    pub nodes: usize,
    /// The model of one of them; ns.
    pub node: Model,
    /// What that was fitted to.
    pub basis: Basis,
    /// Bytes of a struct page.
    pub page: u64,
}

impl Calibration {
    /// Fits a model to the records of one host: to the settings with the highest rate, or to the best ones
    /// with this page writer.
    ///
    /// # Errors
    /// [`CalibrateError`].
    pub fn of(records: &[Record], writer: Option<&str>) -> Result<Self, CalibrateError> {
        let analysis = Analysis::of(records);
        let rate = |cell: &Cell| cell.gb_a_second().unwrap_or(0.0);
        let best = analysis
            .asked()
            .filter(|cell| writer.is_none_or(|writer| cell.settings.writer == writer))
            .max_by(|one, other| rate(one).total_cmp(&rate(other)));
        let none = || CalibrateError::NoRuns {
            writer: writer.map(str::to_owned),
        };
        let best = best.ok_or_else(none)?;
        let record = records
            .iter()
            .find(|record| {
                record.refused.is_none()
                    && record.layout.memory == best.memory
                    && record.settings == best.settings
            })
            .ok_or_else(none)?;
        let measured = measured(&analysis, best);
        let points: Vec<Point> = measured.iter().map(|row| row.point).collect();
        let chosen = choose(&points)?;
        let errors = Errors::of(&points, |threads| chosen.model.time(threads)).ok_or_else(none)?;
        let nodes = nodes(record);
        let share = nodes as f64;
        let node = match nodes {
            1 => chosen.model,
            _ => choose(&a_node(&points, share))?.model,
        };
        Ok(Self {
            settings: best.settings.clone(),
            held: Held::of(&points),
            nodes,
            node,
            basis: Basis {
                host: format!("{} ({})", record.host.name, record.host.cpu),
                threads: points.iter().map(|point| point.threads).fold(0.0, f64::max) / share,
                bytes: best.bytes as f64 / share,
            },
            page: record.layout.page_struct_bytes,
            measured,
            chosen,
            errors,
        })
    }
}

/// The cells that differ from this one in threads alone.
fn measured(analysis: &Analysis, of: &Cell) -> Vec<Measured> {
    let same = |cell: &&Cell| {
        let settings = Settings {
            threads: cell.settings.threads,
            ..of.settings.clone()
        };
        cell.memory == of.memory && cell.settings == settings
    };
    let mut measured: Vec<Measured> = analysis
        .asked()
        .filter(same)
        .filter_map(|cell| {
            let times: Vec<f64> = cell.times.values().copied().collect();
            Some(Measured {
                point: Point {
                    threads: cell.settings.threads as f64,
                    time: cell.time()?,
                },
                spread: stats::spread(&times)?,
            })
        })
        .collect();
    measured.sort_by(|one, other| one.point.threads.total_cmp(&other.point.threads));
    measured
}

/// Nodes of the host that had both threads and memory to write: simulated nodes on one real one share
/// its bandwidth, and are one.
fn nodes(record: &Record) -> usize {
    let of_host = match record.settings.nodes.len() {
        0 => record
            .host
            .nodes
            .iter()
            .filter(|node| node.allowed > 0)
            .count(),
        chosen => chosen,
    };
    of_host.min(record.nodes.len()).max(1)
}

/// The points of one of `share` equal nodes. Where there are fewer threads than nodes, one thread
/// writes several nodes one after the other.
fn a_node(points: &[Point], share: f64) -> Vec<Point> {
    let own = |point: &Point| {
        let threads = point.threads / share;
        Point {
            threads: threads.max(1.0),
            time: point.time * threads.min(1.0),
        }
    };
    points.iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{HostNode, NodeTime, Role};
    use crate::synthetic;

    /// One round of `stream` with these numbers of threads.
    fn records(threads: &[u64], nodes: u64, ns: impl Fn(f64) -> f64) -> Vec<Record> {
        let run = |threads: &u64| {
            let mut record = synthetic::record();
            record.role = Role::Cell;
            record.settings = synthetic::settings(*threads, "stream");
            record.write_ns = ns(*threads as f64) as u64;
            let node = |node: u64| {
                (
                    NodeTime {
                        node,
                        pages: 1,
                        ns: 1,
                    },
                    HostNode {
                        node,
                        ..record.host.nodes[0].clone()
                    },
                )
            };
            (record.nodes, record.host.nodes) = (0..nodes).map(node).unzip();
            record
        };
        threads.iter().map(run).collect()
    }

    #[test]
    fn a_node_has_its_share_of_threads_and_bytes() {
        // cores alone: twice the threads, half of the time, also with fewer threads than nodes
        let records = records(&[1, 2, 4, 8, 16], 4, |threads| 64e6 / threads);
        let made = Calibration::of(&records, None).unwrap();
        assert_eq!((made.nodes, made.basis.threads), (4, 4.0));
        assert!(
            (made.node.time(1.0) / 16e6 - 1.0).abs() < 0.01,
            "{}",
            made.node
        );
        assert!(
            (made.node.time(4.0) / 4e6 - 1.0).abs() < 0.01,
            "{}",
            made.node
        );
        assert!(made.errors.largest < 0.01 && !made.held.unwrap().misses());
    }

    #[test]
    fn simulated_nodes_of_one_real_one_share_its_bandwidth() {
        let mut records = records(&[1, 2, 4], 4, |threads| 64e6 / threads);
        for record in &mut records {
            record.host.nodes.truncate(1);
        }
        assert_eq!(Calibration::of(&records, None).unwrap().nodes, 1);
    }

    #[test]
    fn what_makes_no_model_says_why() {
        let one = records(&[4], 1, |_| 1e6);
        let told = |writer| Calibration::of(&one, writer).unwrap_err().to_string();
        assert!(told(None).contains("needs 2 different numbers of threads, not 1"));
        assert!(told(Some("zero")).contains("no runs of the page writer \"zero\""));
        assert!(Calibration::of(&[], None).is_err());
    }
}
