//! `--trace`: every span of every run, kept for a picture.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use deferred_init::trace::Timeline;
use study::replace::{Replacement, is_same};

use crate::front::{FAILED, Failure, unsaid, unusable};

/// A timeline that is written when all runs are over, however they ended.
#[derive(Debug)]
pub struct Trace {
    timeline: Timeline,
    path: PathBuf,
    // made before the first run: hours of them must not end at a folder that is not there
    file: Option<Replacement>,
}

impl Trace {
    /// A timeline for the file `path`, which is not made yet.
    pub fn new(path: &Path) -> Self {
        Self {
            timeline: Timeline::new(),
            path: path.to_owned(),
            file: None,
        }
    }

    /// The layer that takes part in it.
    pub fn timeline(&self) -> Timeline {
        self.timeline.clone()
    }

    /// Sees that the file can be made, and is none of those that the program reads or leaves. One that is
    /// there stays as it is until the timeline is whole.
    ///
    /// # Errors
    /// With status 2 where it cannot be made, or is one of `others`.
    pub fn create(&mut self, others: &[&Path]) -> Result<(), Failure> {
        let path = self.path.display();
        if others.iter().any(|other| is_same(other, &self.path)) {
            return Err(unusable(format!(
                "--trace {path} is a file that this program reads or keeps its records in; name another"
            )));
        }
        let file = Replacement::begin(&self.path)
            .map_err(|error| unusable(format!("--trace {path}: {error}")))?;
        self.file = Some(file);
        Ok(())
    }

    /// Writes the timeline.
    ///
    /// # Errors
    /// Where it cannot be written; a file that was there before is there still.
    pub fn write(&mut self) -> Result<(), Failure> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let write = || -> io::Result<()> {
            let mut to = BufWriter::new(file);
            self.timeline.write(&mut to)?;
            to.into_inner()
                .map_err(io::IntoInnerError::into_error)?
                .finish()
        };
        write().map_err(|error| (FAILED, format!("--trace {}: {error}", self.path.display())))
    }

    /// Writes the timeline, and says where it is and what it cost.
    ///
    /// # Errors
    /// Where one of the two cannot be done.
    pub fn finish(mut self, out: &mut impl Write) -> Result<(), Failure> {
        self.write()?;
        writeln!(
            out,
            "timeline: {} (for Perfetto or chrome://tracing)\n          \
             these runs were traced, which costs time: their times are not comparable with those of \
             runs that were not",
            self.path.display()
        )
        .map_err(unsaid)
    }
}
