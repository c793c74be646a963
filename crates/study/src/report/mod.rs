//! Reports: one HTML file that shows a study.
//!
//! A [`Report`] is made of records, of one host or of several, and becomes one file that needs no
//! network: plots as SVG, style and data inside, readable on light and dark screens, on narrow ones
//! and on paper. What it says in words is what the records support and no more.
//!
//! ```
//! use study::report::{Options, Report};
//! use study::synthetic;
//!
//! let records = synthetic::study(61, |settings, _round| Some(1e6 / settings.threads as f64));
//! let report = Report::of(&records, &Options::default())?;
//! assert!(report.html()?.starts_with("<!DOCTYPE html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod data;
mod page;
mod plot;
mod view;

use crate::record::Record;
use data::Embedded;
use view::View;

pub use plot::PlotError;

/// What a report is to say beside its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The title; by default the studies' names.
    pub title: Option<String>,
    /// The files that the records came from, as they are to be named on the page.
    pub files: Vec<String>,
    /// What reading them gave rise to, such as a torn line.
    pub warnings: Vec<String>,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// There is nothing to report.
    #[error("there are no records to report; was the study ended before its first run?")]
    NoRecords,
}

/// A report.
#[derive(Clone, Debug)]
pub struct Report {
    view: View,
    data: Embedded,
}

impl Report {
    /// Of these records, in any order.
    ///
    /// # Errors
    /// [`ReportError::NoRecords`].
    pub fn of(records: &[Record], options: &Options) -> Result<Self, ReportError> {
        if records.is_empty() {
            return Err(ReportError::NoRecords);
        }
        Ok(Self {
            view: View::of(records, options),
            data: Embedded::of(records),
        })
    }

    /// Its summary, a line of words each.
    pub fn summary(&self) -> &[String] {
        &self.view.summary
    }

    /// What makes its figures less than they seem, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.view.warnings
    }

    /// The file.
    ///
    /// # Errors
    /// [`PlotError`]: the drawing library failed, which would be a bug.
    pub fn html(&self) -> Result<String, PlotError> {
        page::page(&self.view, &self.data)
    }
}
