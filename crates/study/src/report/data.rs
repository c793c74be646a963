//! What a report embeds: its runs as JSON and as CSV.
//!
//! A record repeats its host and names every worker, which is right for a file that stands alone and
//! too much for a page. Embedded are, once each, hosts and layouts, and of each run what tells it
//! apart, its time, its bytes and its counters.

use serde::Serialize;

use crate::record::{Host, Layout, Record};

/// The two, ready for a script element.
#[derive(Clone, Debug)]
pub(super) struct Embedded {
    /// An object: `hosts`, `layouts`, `runs`.
    pub(super) json: String,
    /// The CSV as a string of JSON.
    pub(super) csv: String,
    /// How many runs there are.
    pub(super) runs: usize,
}

#[derive(Serialize)]
struct Data<'r> {
    hosts: &'r [&'r Host],
    layouts: &'r [&'r Layout],
    runs: &'r [Run<'r>],
}

/// A run; also a line of the CSV.
#[derive(Serialize)]
struct Run<'r> {
    study: &'r str,
    design: &'r str,
    host: &'r str,
    host_index: usize,
    layout_index: usize,
    session: u64,
    round: u64,
    place: u64,
    role: &'static str,
    threads: u64,
    nodes: String,
    placement: &'r str,
    scheduler: &'r str,
    policy: &'r str,
    writer: &'r str,
    pages: &'r str,
    fill: Option<&'r str>,
    refused: Option<&'r str>,
    memory: u64,
    bytes: u64,
    began_ms: u64,
    map_ns: u64,
    fault_ns: u64,
    write_ns: u64,
    first_usable_ns: Option<u64>,
    total_ns: Option<u64>,
    worst_stretch_ns: Option<u64>,
    sections_first: Option<u64>,
    traced: bool,
    llc_misses: Option<u64>,
    dtlb_store_misses: Option<u64>,
    remote_stores: Option<u64>,
}

/// The place of `item` in `all`, where it is put if it is new.
fn index<'r, T: PartialEq>(all: &mut Vec<&'r T>, item: &'r T) -> usize {
    // the last one first: runs of one host follow each other
    match all.iter().rposition(|other| *other == item) {
        Some(at) => at,
        None => {
            all.push(item);
            all.len() - 1
        }
    }
}

impl Embedded {
    pub(super) fn of(records: &[Record]) -> Self {
        let (mut hosts, mut layouts) = (Vec::new(), Vec::new());
        let runs: Vec<Run<'_>> = records
            .iter()
            .map(|record| {
                let settings = &record.settings;
                let nodes: Vec<String> = settings.nodes.iter().map(u64::to_string).collect();
                Run {
                    study: &record.study,
                    design: &record.design,
                    host: &record.host.name,
                    host_index: index(&mut hosts, &record.host),
                    layout_index: index(&mut layouts, &record.layout),
                    session: record.session,
                    round: record.round,
                    place: record.place,
                    role: record.role.name(),
                    threads: settings.threads,
                    nodes: nodes.join("+"),
                    placement: &settings.placement,
                    scheduler: &settings.scheduler,
                    policy: &settings.policy,
                    writer: &settings.writer,
                    pages: &settings.pages,
                    fill: record.fill.as_deref(),
                    refused: record.refused.as_deref(),
                    memory: record.layout.memory,
                    bytes: record.bytes(),
                    began_ms: record.began_ms,
                    map_ns: record.map_ns,
                    fault_ns: record.fault_ns,
                    write_ns: record.write_ns,
                    first_usable_ns: record.boot.map(|boot| boot.first_usable_ns),
                    total_ns: record.boot.map(|boot| boot.total_ns),
                    worst_stretch_ns: record.boot.map(|boot| boot.worst_stretch_ns),
                    sections_first: record.boot.map(|boot| boot.sections_first),
                    traced: record.traced,
                    llc_misses: record.counters.llc_misses,
                    dtlb_store_misses: record.counters.dtlb_store_misses,
                    remote_stores: record.counters.remote_stores,
                }
            })
            .collect();
        let data = Data {
            hosts: &hosts,
            layouts: &layouts,
            runs: &runs,
        };
        Self {
            json: for_script(&data),
            csv: for_script(&csv(&runs)),
            runs: runs.len(),
        }
    }
}

fn csv(runs: &[Run<'_>]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for run in runs {
        writer.serialize(run).expect("flat fields into memory");
    }
    let bytes = writer.into_inner().expect("memory takes everything");
    String::from_utf8(bytes).expect("texts and numbers are UTF-8")
}

/// JSON that no HTML parser takes for the end of its element or the begin of a comment.
fn for_script(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("numbers, texts and lists of them");
    // outside of strings JSON has none of these
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn hosts_are_embedded_once_and_runs_name_theirs() {
        let mut records = synthetic::study(2, |_, _| Some(1e6));
        for record in &mut records[7..] {
            record.host.name = "other".into();
        }
        let data = Embedded::of(&records);
        let json: serde_json::Value = serde_json::from_str(&data.json).unwrap();
        assert_eq!(json["hosts"].as_array().unwrap().len(), 2);
        assert_eq!(json["layouts"].as_array().unwrap().len(), 1);
        assert_eq!(json["runs"].as_array().unwrap().len(), records.len());
        assert_eq!(json["runs"][8]["host_index"], 1);
        assert_eq!(json["runs"][8]["write_ns"], 1_000_000);
    }

    #[test]
    fn what_boots_took_is_in_json_and_csv_and_empty_for_other_runs() {
        let mut records = synthetic::boots(1, |_, _| [1e6, 4e6, 2e6]);
        records.push(synthetic::record());
        let data = Embedded::of(&records);
        let json: serde_json::Value = serde_json::from_str(&data.json).unwrap();
        assert_eq!(json["runs"][1]["first_usable_ns"], 1_000_000);
        assert_eq!(json["runs"][1]["worst_stretch_ns"], 2_000_000);
        assert!(json["runs"][3]["total_ns"].is_null());
        let text: String = serde_json::from_str(&data.csv).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let total = names.iter().position(|name| name == "total_ns").unwrap();
        let totals: Vec<String> = reader
            .records()
            .map(|line| line.unwrap()[total].to_owned())
            .collect();
        assert_eq!(totals, ["4000000", "4000000", "4000000", ""]);
    }

    #[test]
    fn nothing_in_a_record_ends_the_script_or_begins_a_column() {
        let mut record = synthetic::record();
        record.host.name = "</script><script>alert(1)</script><!-- & \u{2028}".into();
        record.settings.writer = "a,\"b\"\nc".into();
        let data = Embedded::of(std::slice::from_ref(&record));
        for text in [&data.json, &data.csv] {
            assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        }
        let text: String = serde_json::from_str(&data.csv).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let line = reader.records().next().unwrap().unwrap();
        let field = |name: &str| line.get(names.iter().position(|n| n == name).unwrap());
        assert_eq!(field("writer"), Some(record.settings.writer.as_str()));
        assert_eq!(field("host"), Some(record.host.name.as_str()));
        assert_eq!(field("llc_misses"), Some(""));
    }
}
