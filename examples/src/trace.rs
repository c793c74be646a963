//! `--trace`: every span of every run, kept for a picture.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use deferred_init::trace::Timeline;

use crate::front::{FAILED, Failure, unsaid, unusable};

/// A timeline that is written when all runs are over, however they ended.
#[derive(Debug)]
pub struct Trace {
    pub(crate) timeline: Timeline,
    path: PathBuf,
    // made before the first run: hours of them must not end at a folder that is not there
    file: Option<File>,
}

impl Trace {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            timeline: Timeline::new(),
            path: path.to_owned(),
            file: None,
        }
    }

    /// Makes the file.
    ///
    /// # Errors
    /// With status 2 where it cannot be made.
    pub fn create(&mut self) -> Result<(), Failure> {
        let file = File::create(&self.path)
            .map_err(|error| unusable(format!("--trace {}: {error}", self.path.display())))?;
        self.file = Some(file);
        Ok(())
    }

    /// Writes the timeline, and says where it is and what it cost.
    ///
    /// # Errors
    /// Where one of the two cannot be done.
    pub fn finish(self, out: &mut impl Write) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            let message = format!("--trace {}: {error}", self.path.display());
            (FAILED, message)
        };
        if let Some(file) = &self.file {
            let mut to = BufWriter::new(file);
            self.timeline.write(&mut to).map_err(failed)?;
            to.flush().map_err(failed)?;
        }
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
