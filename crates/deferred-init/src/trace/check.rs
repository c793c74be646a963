//! Whether a trace is what viewers can read, and says what it should.
//!
//! Written against the description of the format, not against our writer: events may come in any
//! order, complete slices (`X`) are read as well as begins and ends.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

/// What a trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Runs.
    pub runs: usize,
    /// Spans of nodes.
    pub nodes: usize,
    /// Slices of sections.
    pub sections: usize,
    /// Tracks of workers.
    pub workers: usize,
    /// Nodes that have tracks of workers.
    pub groups: usize,
}

/// What is wrong with a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// No JSON, or not of the format's form.
    #[error("the trace is not in the trace event format: {0}")]
    Form(#[from] serde_json::Error),
    /// An event without something that its kind needs.
    #[error("event {event} ({ph}) has no {lacks}")]
    Lacks {
        /// Its place, from 0.
        event: usize,
        /// Its kind.
        ph: String,
        /// What it has not.
        lacks: &'static str,
    },
    /// An event of a kind that a trace of ours has no use for.
    #[error("event {event} is of kind {ph:?}, which is no slice and no name")]
    Kind {
        /// Its place, from 0.
        event: usize,
        /// Its kind.
        ph: String,
    },
    /// A track or its process without a name.
    #[error("track {tid} of process {pid} has no name for its {what}")]
    Unnamed {
        /// The process.
        pid: u64,
        /// The track.
        tid: u64,
        /// `process` or `thread`.
        what: &'static str,
    },
    /// A slice that leaves the one it began in, or ends without having begun.
    #[error("track {tid} of process {pid}: {what} at {ns} ns")]
    Nesting {
        /// The process.
        pid: u64,
        /// The track.
        tid: u64,
        /// When, ns.
        ns: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A slice that does not lie in the span that it belongs to.
    #[error("{name:?} at {ns} ns lies outside the {parent} that it belongs to")]
    Outside {
        /// The slice.
        name: String,
        /// Its begin, ns.
        ns: u64,
        /// What it should lie in.
        parent: &'static str,
    },
    /// A track on which two workers wrote, or one that is not grouped under its worker's node.
    #[error("track {tid} of process {pid} is not that of one worker of the process's node")]
    Mixed {
        /// The process.
        pid: u64,
        /// The track.
        tid: u64,
    },
}

#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    ph: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    ts: Option<f64>,
    #[serde(default)]
    dur: Option<f64>,
    #[serde(default)]
    pid: Option<u64>,
    #[serde(default)]
    tid: Option<u64>,
    #[serde(default)]
    args: Value,
}

/// A slice: where it lies and what it is.
#[derive(Clone, Copy)]
struct Slice<'t> {
    track: (u64, u64),
    begin: u64,
    end: u64,
    name: &'t str,
    cat: &'t str,
    args: &'t Value,
    /// Kind of the slice around it on its track.
    around: Option<&'t str>,
}

/// Holds a trace against the format: every slice ends, on its own track, inside the slice that it
/// began in; tracks and processes have names; every section lies in a slice of its worker, on a track
/// that is that worker's alone and grouped under its node, and within the times of its node and run.
///
/// # Errors
/// [`TraceError`]: the first thing that is not so.
pub fn check(json: &[u8]) -> Result<TraceSummary, TraceError> {
    let trace: Trace = serde_json::from_slice(json)?;
    let mut names = Names::default();
    let mut tracks: BTreeMap<(u64, u64), Vec<(u64, usize)>> = BTreeMap::new();
    for (at, event) in trace.events.iter().enumerate() {
        let lacks = |lacks| TraceError::Lacks {
            event: at,
            ph: event.ph.clone(),
            lacks,
        };
        let pid = event.pid.ok_or_else(|| lacks("pid"))?;
        let tid = event.tid.ok_or_else(|| lacks("tid"))?;
        match event.ph.as_str() {
            "M" => {
                let what = event.name.as_deref().ok_or_else(|| lacks("name"))?;
                names.take(what, (pid, tid), &event.args);
            }
            "B" | "E" | "X" => {
                let ts = event.ts.filter(|ts| ts.is_finite() && *ts >= 0.0);
                let ts = ts.ok_or_else(|| lacks("time"))?;
                if event.ph != "E" && event.name.is_none() {
                    return Err(lacks("name"));
                }
                if event.ph == "X" && event.dur.is_none_or(|dur| dur.is_nan() || dur < 0.0) {
                    return Err(lacks("length"));
                }
                tracks.entry((pid, tid)).or_default().push((ns(ts), at));
            }
            _ => {
                return Err(TraceError::Kind {
                    event: at,
                    ph: event.ph.clone(),
                });
            }
        }
    }
    let mut slices = Vec::new();
    for (track, mut events) in tracks {
        names.check(track)?;
        // as viewers do: by time, and as they came where times are equal
        events.sort_by_key(|(ns, _)| *ns);
        nest(&trace.events, track, &events, &mut slices)?;
    }
    belong(&slices)?;
    summary(&slices, &names)
}

/// ns of a time in µs.
fn ns(micros: f64) -> u64 {
    (micros * 1e3).round() as u64
}

#[derive(Default)]
struct Names {
    processes: BTreeMap<u64, String>,
    threads: BTreeSet<(u64, u64)>,
}

impl Names {
    fn take(&mut self, what: &str, track: (u64, u64), args: &Value) {
        let Some(name) = args.get("name").and_then(Value::as_str) else {
            return;
        };
        match what {
            "process_name" => drop(self.processes.insert(track.0, name.to_owned())),
            "thread_name" => drop(self.threads.insert(track)),
            _ => {}
        }
    }

    fn check(&self, (pid, tid): (u64, u64)) -> Result<(), TraceError> {
        let unnamed = |what| TraceError::Unnamed { pid, tid, what };
        if !self.processes.contains_key(&pid) {
            return Err(unnamed("process"));
        }
        match self.threads.contains(&(pid, tid)) {
            true => Ok(()),
            false => Err(unnamed("thread")),
        }
    }
}

/// The slices of one track, each inside the one around it.
fn nest<'t>(
    events: &'t [Event],
    (pid, tid): (u64, u64),
    track: &[(u64, usize)],
    slices: &mut Vec<Slice<'t>>,
) -> Result<(), TraceError> {
    // slices that are open, the innermost last, and when they end where that is known already
    let mut open: Vec<(usize, Option<u64>)> = Vec::new();
    for &(at, index) in track {
        let wrong = |what| TraceError::Nesting {
            pid,
            tid,
            ns: at,
            what,
        };
        while open
            .last()
            .is_some_and(|(_, end)| end.is_some_and(|end| end <= at))
        {
            open.pop();
        }
        let event = &events[index];
        if event.ph == "E" {
            let (place, end) = open.pop().ok_or_else(|| wrong("an end without a begin"))?;
            if end.is_some() {
                return Err(wrong("an end inside a complete slice"));
            }
            let begun: &mut Slice<'t> = &mut slices[place];
            if event.name.as_deref().is_some_and(|name| name != begun.name) {
                return Err(wrong("an end of another slice than the innermost"));
            }
            begun.end = at;
            continue;
        }
        let end = event
            .dur
            .filter(|_| event.ph == "X")
            .map(|dur| at + ns(dur));
        if let (Some(end), Some(&(_, Some(around)))) = (end, open.last())
            && end > around
        {
            return Err(wrong("a slice that leaves the one around it"));
        }
        let around = open.last().map(|(place, _)| slices[*place].cat);
        open.push((slices.len(), end));
        slices.push(Slice {
            track: (pid, tid),
            begin: at,
            end: end.unwrap_or(u64::MAX),
            name: event.name.as_deref().unwrap_or_default(),
            cat: &event.cat,
            args: &event.args,
            around,
        });
    }
    match open.iter().find(|(_, end)| end.is_none()) {
        None => Ok(()),
        Some(&(place, _)) => Err(TraceError::Nesting {
            pid,
            tid,
            ns: slices[place].begin,
            what: "a slice that never ends, begun",
        }),
    }
}

/// Sections lie within their nodes, nodes within their runs, whatever tracks these are on.
fn belong(slices: &[Slice<'_>]) -> Result<(), TraceError> {
    let number = |slice: &Slice<'_>, what: &str| slice.args.get(what).and_then(Value::as_u64);
    let spans: BTreeMap<(&str, u64), &Slice<'_>> = slices
        .iter()
        .filter_map(|slice| Some(((slice.cat, number(slice, "span")?), slice)))
        .collect();
    for slice in slices {
        let (parent, field) = match slice.cat {
            "section" => ("node", "in"),
            "node" | "worker" => ("run", "run"),
            _ => continue,
        };
        let found = number(slice, field).and_then(|span| spans.get(&(parent, span)));
        if found.is_none_or(|found| slice.begin < found.begin || slice.end > found.end) {
            return Err(TraceError::Outside {
                name: slice.name.to_owned(),
                ns: slice.begin,
                parent,
            });
        }
        if slice.cat == "section" && slice.around != Some("worker") {
            return Err(TraceError::Outside {
                name: slice.name.to_owned(),
                ns: slice.begin,
                parent: "slice of its worker",
            });
        }
    }
    Ok(())
}

fn summary(slices: &[Slice<'_>], names: &Names) -> Result<TraceSummary, TraceError> {
    let mut workers: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    let count = |cat: &str| slices.iter().filter(|slice| slice.cat == cat).count();
    for slice in slices.iter().filter(|slice| slice.cat == "section") {
        let (pid, tid) = slice.track;
        let number = |what: &str| slice.args.get(what).and_then(Value::as_u64);
        let (Some(home), Some(worker)) = (number("home"), number("worker")) else {
            return Err(TraceError::Mixed { pid, tid });
        };
        let known = *workers.entry(slice.track).or_insert((home, worker));
        let group = names.processes.get(&pid);
        if known != (home, worker) || group != Some(&format!("node {home}")) {
            return Err(TraceError::Mixed { pid, tid });
        }
    }
    let groups: BTreeSet<u64> = workers.keys().map(|(pid, _)| *pid).collect();
    Ok(TraceSummary {
        runs: count("run"),
        nodes: count("node"),
        sections: count("section"),
        workers: workers.len(),
        groups: groups.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A good trace of one section, with one event changed by `change`.
    fn trace(change: impl Fn(usize, &str) -> String) -> Result<TraceSummary, TraceError> {
        let events = [
            r#"{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"runs"}}"#,
            r#"{"name":"process_name","ph":"M","pid":2,"tid":0,"args":{"name":"node 0"}}"#,
            r#"{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"run"}}"#,
            r#"{"name":"thread_name","ph":"M","pid":2,"tid":1,"args":{"name":"whole"}}"#,
            r#"{"name":"thread_name","ph":"M","pid":2,"tid":9,"args":{"name":"worker"}}"#,
            r#"{"name":"r","cat":"run","ph":"X","ts":1,"dur":10,"pid":1,"tid":1,"args":{"span":0}}"#,
            r#"{"name":"n","cat":"node","ph":"X","ts":2,"dur":8,"pid":2,"tid":1,"args":{"span":1,"run":0}}"#,
            r#"{"name":"w","cat":"worker","ph":"B","ts":3,"pid":2,"tid":9,"args":{"run":0}}"#,
            r#"{"name":"s","cat":"section","ph":"B","ts":3.001,"pid":2,"tid":9,"args":{"in":1,"home":0,"worker":0}}"#,
            r#"{"ph":"E","ts":4.5,"pid":2,"tid":9}"#,
            r#"{"ph":"E","ts":4.5,"pid":2,"tid":9}"#,
        ];
        let events: Vec<String> = events
            .iter()
            .enumerate()
            .map(|(at, event)| change(at, event))
            .filter(|event| !event.is_empty())
            .collect();
        check(format!("{{\"traceEvents\":[{}]}}", events.join(",")).as_bytes())
    }

    #[test]
    fn a_good_trace_is_counted() {
        let found = trace(|_, event| event.to_owned()).unwrap();
        let wanted = TraceSummary {
            runs: 1,
            nodes: 1,
            sections: 1,
            workers: 1,
            groups: 1,
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn every_fault_is_found() {
        let faults = [
            (0, "process_name", "process", "no name for its process"),
            (4, "thread_name", "thread", "no name for its thread"),
            (5, "\"dur\":10,", "", "no length"),
            (6, "\"dur\":8", "\"dur\":9.5", "outside the run"),
            (6, "\"dur\":8", "\"dur\":2", "outside the node"),
            (6, "\"ph\":\"X\"", "\"ph\":\"Q\"", "is of kind"),
            (7, "\"run\":0", "\"run\":1", "outside the run"),
            (8, "\"ts\":3.001", "\"ts\":2.5", "slice of its worker"),
            (8, "\"ts\":3.001", "\"ts\":-1", "no time"),
            (8, "\"home\":0", "\"home\":1", "one worker"),
            (8, "\"in\":1", "\"in\":7", "outside the node"),
            (
                9,
                "\"tid\":9",
                "\"tid\":1",
                "an end inside a complete slice",
            ),
            (9, "\"ph\"", "\"name\":\"w\",\"ph\"", "another slice"),
            (9, "\"pid\":2,", "", "no pid"),
        ];
        for (at, from, to, wanted) in faults {
            let error = trace(|place, event| match place == at {
                true => event.replacen(from, to, 1),
                false => event.to_owned(),
            });
            let error = error.expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
        let open = trace(|at, event| {
            if at == 10 {
                String::new()
            } else {
                event.to_owned()
            }
        });
        assert!(open.unwrap_err().to_string().contains("never ends"));
        let twice = trace(|at, event| match at {
            10 => format!("{event},{event}"),
            _ => event.to_owned(),
        });
        let error = twice.unwrap_err().to_string();
        assert!(error.contains("an end without a begin"), "{error}");
        assert!(matches!(check(b"[1"), Err(TraceError::Form(_))));
        assert!(matches!(check(b"{}"), Err(TraceError::Form(_))));
        let leaves = br#"{"traceEvents":[
            {"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"p"}},
            {"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"t"}},
            {"name":"a","ph":"X","ts":1,"dur":2,"pid":1,"tid":1},
            {"name":"b","ph":"X","ts":2,"dur":2,"pid":1,"tid":1}]}"#;
        let error = check(leaves).unwrap_err().to_string();
        assert!(error.contains("leaves the one around it"), "{error}");
    }
}
