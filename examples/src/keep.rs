//! What a study leaves: records on disk, progress on a terminal.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use deferred_init::engine::Report;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use study::record::{Key, Layout, Record, Recorded, Store, StoreError};
use study::run::{Observer, Progress};

use crate::front::complain;

/// How often progress is printed where stderr is no terminal.
const QUIET: Duration = Duration::from_secs(30);

/// Keeps a record a run, and tells how far the study is.
#[derive(Debug)]
pub struct Keep {
    store: Store,
    /// What is recorded, earlier sessions' too.
    pub records: Vec<Record>,
    bar: ProgressBar,
    began: Instant,
    said: Instant,
    // runs of earlier sessions
    before: usize,
}

impl Keep {
    /// Begins a file; its folder is made.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn begin(path: &Path) -> Result<Self, StoreError> {
        folder(path)?;
        Ok(Self::with(Store::create(path)?, Recorded::default()))
    }

    /// Goes on with a file, or begins it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn resume(
        path: &Path,
        study: &str,
        design: &str,
        machines: &[Layout],
    ) -> Result<Self, StoreError> {
        folder(path)?;
        let (store, recorded) = Store::resume(path, study, design, machines)?;
        if let Some(torn) = &recorded.torn {
            complain(format_args!("warning: {torn}"));
        }
        Ok(Self::with(store, recorded))
    }

    fn with(store: Store, recorded: Recorded) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left") {
            bar.set_style(style);
        }
        Self {
            store,
            before: recorded.records.len(),
            records: recorded.records,
            bar,
            began: Instant::now(),
            said: Instant::now(),
        }
    }

    /// The file of records.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// How often the study was interrupted before.
    pub fn session(&self) -> u64 {
        self.store.session()
    }

    /// Takes the bar away; a file in which nothing was ever recorded goes too.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
        if self.records.is_empty() {
            // what cannot be removed is an empty file, and harmless
            let _ = std::fs::remove_file(self.path());
        }
    }
}

fn folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|source| StoreError::Io {
        file: folder.to_owned(),
        source,
    })
}

impl Observer for Keep {
    fn has(&self, key: &Key) -> bool {
        self.store.has(key)
    }

    fn ran(&mut self, record: Record, _report: Option<&Report>) -> io::Result<()> {
        self.store.append(&record).map_err(io::Error::other)?;
        self.records.push(record);
        Ok(())
    }

    fn progress(&mut self, progress: Progress) {
        if progress.of == 0 {
            self.bar.set_position(progress.done as u64);
            return;
        }
        if self.bar.length().is_none() && self.before > 0 {
            self.bar.reset_eta();
        }
        self.bar.set_length(progress.of as u64);
        self.bar.set_position(progress.done as u64);
        if !io::stderr().is_terminal() && self.said.elapsed() > QUIET {
            self.said = Instant::now();
            let own = progress.done.saturating_sub(self.before).max(1) as f64;
            let left = progress.of.saturating_sub(progress.done) as f64;
            let seconds = self.began.elapsed().as_secs_f64() / own * left;
            complain(format_args!(
                "{} of {} runs, about {seconds:.0} s left",
                progress.done, progress.of
            ));
        }
    }

    fn note(&mut self, note: &str) {
        self.bar.suspend(|| complain(format_args!("note: {note}")));
    }
}
