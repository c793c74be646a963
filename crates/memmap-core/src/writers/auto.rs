//! The writer `auto`: `template` or `stream`, by what the job is.
//!
//! Ordinary stores win where the written pages stay in the cache until somebody reads them, and
//! non-temporal stores win everywhere else. What decides is therefore the size of the whole job
//! beside the last-level cache, and whether its pages are read back soon. A single call sees only
//! its own run, so whoever knows the job says so with [`Auto::for_job`].

use super::path::last_level_cache;
use super::{PageWriter, Series, Stream, Template};
use crate::image::PageImage;

/// Bytes of a run, the job being unknown, up to which ordinary stores are used: half of a small
/// first-level cache. Such a run is over before a fence and two torn lines pay off.
const SMALL_RUN: u64 = 16 << 10;

/// The cache that is assumed where the processor does not state any, in bytes.
const ASSUMED_CACHE: u64 = 8 << 20;

/// When the pages of a job are read after they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadBack {
    /// At once and in full, as by a simulator that frees every page it has just initialised.
    Soon,
    /// Later or in small part, as by hand-over, which touches block heads only.
    Later,
}

/// What is known of a job before its first run is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Bytes of struct pages that the whole job writes.
    pub bytes: u64,
    /// When they are read.
    pub read_back: ReadBack,
}

/// Chooses between [`Template`] and [`Stream`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto {
    job: Option<Job>,
    cache: Option<u64>,
}

impl Auto {
    /// The writer that knows nothing of the job and takes it for a large one, of which only tiny
    /// runs are written by ordinary stores.
    pub const DETECT: Self = Self {
        job: None,
        cache: None,
    };

    /// The writer for the runs of `job`, beside the last-level cache that the processor states.
    pub const fn for_job(job: Job) -> Self {
        Self {
            job: Some(job),
            cache: None,
        }
    }

    /// The same writer for a last-level cache of `bytes` bytes, instead of what the processor
    /// states.
    #[must_use]
    pub const fn with_cache(mut self, bytes: u64) -> Self {
        self.cache = Some(bytes);
        self
    }

    /// The writer that a run of `bytes` bytes gets.
    pub fn choice(&self, bytes: u64) -> &'static dyn PageWriter {
        let Some(job) = self.job else {
            return ordinary_up_to(SMALL_RUN, bytes);
        };
        let cache = self
            .cache
            .or_else(last_level_cache)
            .unwrap_or(ASSUMED_CACHE);
        // Whoever reads soon finds the pages as long as all of them fit. Otherwise ordinary stores
        // are worth it only for jobs so small that they displace next to nothing.
        let limit = match job.read_back {
            ReadBack::Soon => cache / 2,
            ReadBack::Later => cache / 64,
        };
        ordinary_up_to(limit, job.bytes)
    }
}

/// Ordinary stores up to `limit` bytes, non-temporal ones above.
fn ordinary_up_to(limit: u64, bytes: u64) -> &'static dyn PageWriter {
    if bytes <= limit {
        &Template::DETECT
    } else {
        &Stream::DETECT
    }
}

impl PageWriter for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn write(&self, image: &PageImage, pages: &mut [u64]) {
        self.choice(size_of_val(pages) as u64).write(image, pages);
    }

    fn write_series(&self, series: &mut dyn Series, pages: &mut [u64]) {
        self.choice(size_of_val(pages) as u64)
            .write_series(series, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_streamed_from_the_size_on_at_which_it_leaves_the_cache() {
        let name = |bytes, read_back| {
            Auto::for_job(Job { bytes, read_back })
                .with_cache(64 << 20)
                .choice(1 << 20)
                .name()
        };
        assert_eq!(name(1 << 20, ReadBack::Later), "template");
        assert_eq!(name(2 << 20, ReadBack::Later), "stream");
        assert_eq!(name(32 << 20, ReadBack::Soon), "template");
        assert_eq!(name(33 << 20, ReadBack::Soon), "stream");
    }

    #[test]
    fn a_run_of_an_unknown_job_is_taken_for_part_of_a_large_one_unless_it_is_tiny() {
        assert_eq!(Auto::DETECT.choice(64).name(), "template");
        assert_eq!(Auto::DETECT.choice(16 << 10).name(), "template");
        assert_eq!(Auto::DETECT.choice(2 << 20).name(), "stream");
    }
}
