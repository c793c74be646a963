//! The trace event format that Chrome came up with, which Perfetto reads too.
//!
//! # Implementation
//! A node is a *process* and a worker's thread is a *thread* of it, so that viewers group tracks by
//! node. On a worker's track sections lie inside a slice of their run; runs and nodes have tracks of
//! their own, one more where several were under way at once. Slices are written as a begin and an end:
//! viewers round times to their own units, and a begin and an end that are equal stay equal under any
//! rounding, where a start and a length do not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::thread::ThreadId;

use serde::Serialize;
use serde_json::{Value, json};

use super::fields::Kind;
use super::timeline::Slice;

/// The process of runs.
const RUNS: u64 = 1;
/// The process of node 0; that of node n is n further.
const NODES: u64 = 2;
/// Thread numbers of workers begin here, those of runs and nodes at 1.
const WORKERS: u64 = 1000;

/// One line of a trace.
#[derive(Serialize)]
struct Event<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'a str,
    ph: &'a str,
    /// µs, with the ns behind the point
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    pid: u64,
    tid: u64,
    #[serde(skip_serializing_if = "Value::is_null")]
    args: Value,
}

/// What a worker's threads wrote; more than one where runs had different crews.
type Threads = Vec<(ThreadId, Vec<Slice>)>;

/// Slices by the tracks that they are drawn on.
#[derive(Default)]
struct Tracks {
    runs: Vec<Slice>,
    /// By node.
    nodes: BTreeMap<u64, Vec<Slice>>,
    /// By the worker's node and index.
    workers: BTreeMap<(u64, u64), Threads>,
    /// Number and name of the run of each span of a node.
    run_of: BTreeMap<u64, (u64, String)>,
}

impl Tracks {
    fn new(slices: Vec<Slice>) -> Self {
        let mut tracks = Self::default();
        for slice in slices {
            match slice.kind {
                Kind::Run => tracks.runs.push(slice),
                Kind::Node => {
                    let node = tracks.nodes.entry(slice.fields.node).or_default();
                    node.push(slice);
                }
                Kind::Section => {
                    let key = (slice.fields.home, slice.fields.worker);
                    let threads = tracks.workers.entry(key).or_default();
                    match threads.iter_mut().find(|(id, _)| *id == slice.thread) {
                        Some((_, slices)) => slices.push(slice),
                        None => threads.push((slice.thread, vec![slice])),
                    }
                }
            }
        }
        let names: BTreeMap<u64, String> = tracks
            .runs
            .iter()
            .map(|run| (run.serial, run_name(run)))
            .collect();
        tracks.run_of = tracks
            .nodes
            .values()
            .flatten()
            .filter_map(|node| {
                let run = node.parent?;
                Some((node.serial, (run, names.get(&run)?.clone())))
            })
            .collect();
        tracks
    }

    /// Nodes that have a track of any kind.
    fn named(&self) -> BTreeSet<u64> {
        let homes = self.workers.keys().map(|(home, _)| *home);
        self.nodes.keys().copied().chain(homes).collect()
    }
}

/// Writes all slices as one JSON object.
pub(super) fn write(slices: Vec<Slice>, to: impl Write) -> io::Result<()> {
    let tracks = Tracks::new(slices);
    let mut out = Out { to, first: true };
    out.to
        .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    if !tracks.runs.is_empty() {
        out.process(RUNS, "runs", 0)?;
    }
    for node in tracks.named() {
        out.process(NODES + node, &format!("node {node}"), 1 + node)?;
    }
    runs(&mut out, tracks.runs)?;
    for (node, slices) in tracks.nodes {
        whole_node(&mut out, node, slices)?;
    }
    let mut tid = WORKERS;
    for ((home, worker), mut threads) in tracks.workers {
        threads.sort_by_key(|(_, slices)| slices.iter().map(|slice| slice.begin).min());
        for lane in threads.into_iter().flat_map(|(_, slices)| lanes(slices)) {
            let track = (NODES + home, tid);
            one_worker(&mut out, track, worker, &lane, &tracks.run_of)?;
            tid += 1;
        }
    }
    out.to.write_all(b"\n]}\n")?;
    out.to.flush()
}

fn runs<W: Write>(out: &mut Out<W>, runs: Vec<Slice>) -> io::Result<()> {
    for (lane, runs) in lanes(runs).into_iter().enumerate() {
        let track = (RUNS, 1 + lane as u64);
        out.thread(track, "run", track.1)?;
        for run in &runs {
            let args = json!({
                "span": run.serial,
                "workers": run.fields.workers,
                "sections": run.fields.sections,
                "bytes": run.fields.bytes,
                "ns": run.fields.ns,
            });
            out.begin(track, run.begin, "run", &run_name(run), args)?;
            out.end(track, run.end)?;
        }
    }
    Ok(())
}

fn whole_node<W: Write>(out: &mut Out<W>, node: u64, slices: Vec<Slice>) -> io::Result<()> {
    for (lane, slices) in lanes(slices).into_iter().enumerate() {
        let track = (NODES + node, 1 + lane as u64);
        out.thread(track, &format!("node {node} as a whole"), track.1)?;
        for slice in &slices {
            let args = json!({
                "span": slice.serial,
                "run": slice.parent,
                "served_by": slice.fields.served_by,
                "workers": slice.fields.workers,
                "sections": slice.fields.sections,
                "bytes": slice.fields.bytes,
                "ns": slice.fields.ns,
            });
            out.begin(track, slice.begin, "node", &format!("node {node}"), args)?;
            out.end(track, slice.end)?;
        }
    }
    Ok(())
}

/// A worker's track: a slice a run, and in it one a section.
fn one_worker<W: Write>(
    out: &mut Out<W>,
    track: (u64, u64),
    worker: u64,
    slices: &[Slice],
    run_of: &BTreeMap<u64, (u64, String)>,
) -> io::Result<()> {
    let cpu = slices.first().map_or(0, |slice| slice.fields.cpu);
    out.thread(track, &format!("worker {worker} on CPU {cpu}"), track.1)?;
    let of = |slice: &Slice| slice.parent.and_then(|node| run_of.get(&node));
    for together in slices.chunk_by(|a, b| of(a) == of(b)) {
        let (Some(first), Some(last)) = (together.first(), together.last()) else {
            continue;
        };
        let (run, name) = match of(first) {
            Some((run, name)) => (Some(run), name.as_str()),
            None => (None, "run"),
        };
        out.begin(track, first.begin, "worker", name, json!({ "run": run }))?;
        for slice in together {
            section(out, track, slice)?;
        }
        out.end(track, last.end)?;
    }
    Ok(())
}

fn run_name(run: &Slice) -> String {
    match &run.names {
        Some(names) => format!("{}, {}", names.writer, names.scheduler),
        None => "run".to_owned(),
    }
}

fn section<W: Write>(out: &mut Out<W>, track: (u64, u64), slice: &Slice) -> io::Result<()> {
    let fields = &slice.fields;
    let name = match fields.sections {
        0 | 1 => format!("section {}", fields.section),
        more => format!(
            "sections {} to {}",
            fields.section,
            fields.section + more - 1
        ),
    };
    let args = json!({
        "in": slice.parent,
        "node": fields.node,
        "zone": fields.zone,
        "section": fields.section,
        "sections": fields.sections,
        "first_pfn": fields.first_pfn,
        "pages": fields.pages,
        "worker": fields.worker,
        "home": fields.home,
        "cpu": fields.cpu,
        "bytes": fields.bytes,
        "ns": fields.ns,
    });
    out.begin(track, slice.begin, "section", &name, args)?;
    out.end(track, slice.end)
}

/// Slices by their begin, on as many tracks as it takes for none to overlap another.
fn lanes(mut slices: Vec<Slice>) -> Vec<Vec<Slice>> {
    slices.sort_by_key(|slice| (slice.begin, slice.end));
    let mut lanes: Vec<Vec<Slice>> = Vec::new();
    for slice in slices {
        let free = |lane: &&mut Vec<Slice>| lane.last().is_none_or(|last| last.end <= slice.begin);
        match lanes.iter_mut().find(free) {
            Some(lane) => lane.push(slice),
            None => lanes.push(vec![slice]),
        }
    }
    lanes
}

struct Out<W> {
    to: W,
    first: bool,
}

impl<W: Write> Out<W> {
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.to.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.to, event).map_err(io::Error::from)
    }

    fn about(&mut self, (pid, tid): (u64, u64), name: &str, args: Value) -> io::Result<()> {
        self.event(&Event {
            name,
            cat: "",
            ph: "M",
            ts: None,
            pid,
            tid,
            args,
        })
    }

    fn process(&mut self, pid: u64, name: &str, place: u64) -> io::Result<()> {
        self.about((pid, 0), "process_name", json!({ "name": name }))?;
        self.about(
            (pid, 0),
            "process_sort_index",
            json!({ "sort_index": place }),
        )
    }

    fn thread(&mut self, track: (u64, u64), name: &str, place: u64) -> io::Result<()> {
        self.about(track, "thread_name", json!({ "name": name }))?;
        self.about(track, "thread_sort_index", json!({ "sort_index": place }))
    }

    fn begin(
        &mut self,
        (pid, tid): (u64, u64),
        ns: u64,
        cat: &str,
        name: &str,
        args: Value,
    ) -> io::Result<()> {
        let ts = Some(ns as f64 / 1e3);
        self.event(&Event {
            name,
            cat,
            ph: "B",
            ts,
            pid,
            tid,
            args,
        })
    }

    fn end(&mut self, (pid, tid): (u64, u64), ns: u64) -> io::Result<()> {
        self.event(&Event {
            name: "",
            cat: "",
            ph: "E",
            ts: Some(ns as f64 / 1e3),
            pid,
            tid,
            args: Value::Null,
        })
    }
}
