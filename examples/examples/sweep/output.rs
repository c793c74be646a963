//! What a sweep leaves: records on disk, progress on a terminal.

use std::io;
use std::path::{Path, PathBuf};

use deferred_init::Topology;
use deferred_init::engine::Report;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use study::record::{Host, Layout, NodeTime, Record, SCHEMA, Settings, WorkerTime};
use study::sweep::{Cell, Measured, Observer, Progress};

/// Appends a record a run and draws a bar.
pub(crate) struct Output {
    path: PathBuf,
    sweep: String,
    layout: Layout,
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
        let writer = cell.writer.map_or_else(
            || format!("limit:{}", measured.limit.name()),
            |writer| writer.name().to_owned(),
        );
        let record = Record {
            schema: SCHEMA,
            sweep: self.sweep.clone(),
            round: round as u64,
            place: place as u64,
            layout: Layout {
                fault_ns: nanoseconds(measured.fault),
                ..self.layout.clone()
            },
            settings: Settings {
                threads: cell.threads as u64,
                writer,
                scheduler: report.scheduler.to_owned(),
                placement: self.placement.to_owned(),
            },
            write_ns: nanoseconds(report.phases.write),
            nodes: report.nodes.iter().map(NodeTime::of).collect(),
            workers: report.workers.iter().map(WorkerTime::of).collect(),
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

/// What records say of this host.
pub(crate) fn host(topology: &Topology) -> Host {
    let said = sys::HostDescription::read();
    Host {
        kernel: said.kernel,
        machine: said.machine,
        cpu: said.cpu,
        cpus: topology.allowed_cpus.len() as u64,
        nodes: topology.nodes.len() as u64,
        topology: topology.source.to_string(),
        memory: said.memory,
        huge_pages: said.huge_pages,
        virtual_machine: said.virtual_machine,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
