//! What a sweep leaves: records on disk, progress on a terminal.

use std::io;
use std::path::{Path, PathBuf};

use deferred_init::engine::Report;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use study::record::{
    Counters, Host, Layout, NodeTime, Placed, Record, Role, SCHEMA, SectionTime, Settings,
    WorkerTime,
};
use study::sweep::{Cell, Measured, Observer, Progress};

/// Appends a record a run and draws a bar.
pub(crate) struct Output {
    path: PathBuf,
    sweep: String,
    layout: Layout,
    map_ns: u64,
    host: Host,
    placement: &'static str,
    bar: ProgressBar,
}

impl Output {
    /// Creates the folder; the file comes with the first record.
    pub(crate) fn new(
        folder: &Path,
        sweep: String,
        layout: Layout,
        map_time: std::time::Duration,
        host: Host,
        placement: &'static str,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{sweep}.jsonl"));
        // found out now, not after the first run
        std::fs::File::create_new(&path)?;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left") {
            bar.set_style(style);
        }
        Ok(Self {
            path,
            sweep,
            layout,
            map_ns: nanoseconds(map_time),
            host,
            placement,
            bar,
        })
    }

    /// The file of records.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Output {
    fn ran(
        &mut self,
        cell: &Cell,
        round: usize,
        place: usize,
        measured: &Measured,
        report: &Report,
    ) -> io::Result<()> {
        let record = Record {
            schema: SCHEMA,
            study: self.sweep.clone(),
            design: String::new(),
            session: 0,
            round: round as u64,
            place: place as u64,
            began_ms: now_ms(),
            role: match cell.writer {
                Some(_) => Role::Cell,
                None => Role::Limit,
            },
            layout: self.layout.clone(),
            settings: Settings {
                threads: cell.threads as u64,
                nodes: Vec::new(),
                placement: self.placement.to_owned(),
                scheduler: report.scheduler.to_owned(),
                policy: "eager".to_owned(),
                writer: cell
                    .writer
                    .map_or("limit", |writer| writer.name())
                    .to_owned(),
                pages: "system".to_owned(),
            },
            fill: cell
                .writer
                .is_none()
                .then(|| measured.limit.name().to_owned()),
            refused: None,
            map_ns: self.map_ns,
            fault_ns: nanoseconds(measured.fault),
            huge_bytes: None,
            write_ns: nanoseconds(report.phases.write),
            nodes: report.nodes.iter().map(NodeTime::of).collect(),
            workers: report.workers.iter().map(WorkerTime::of).collect(),
            sections: report.records.iter().map(SectionTime::of).collect(),
            placed: measured
                .warm_up
                .placement
                .nodes
                .iter()
                .flat_map(Placed::of)
                .collect(),
            counters: Counters {
                absent: "not asked for".to_owned(),
                ..Counters::default()
            },
            host: self.host.clone(),
        };
        sys::append_record(&self.path, &record.to_line()).map_err(io::Error::other)
    }

    fn progress(&mut self, progress: Progress) {
        if progress.of > 0 {
            self.bar.set_length(progress.of as u64);
        }
        self.bar.set_position(progress.done as u64);
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
