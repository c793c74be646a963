//! Layers for `tracing-subscriber` that make something of the spans of runs.
//!
//! | layer | what it keeps | what it is for |
//! |---|---|---|
//! | [`Aggregate`] | a histogram of times a node and worker | figures of long or many runs |
//! | [`Timeline`] | every span, as a Chrome trace | a picture: open it in Perfetto or `chrome://tracing` |
//!
//! Both are handles: a clone goes into the subscriber, the other one is asked afterwards.
//!
//! ```
//! use deferred_init::trace::{Aggregate, Timeline, check};
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let (figures, timeline) = (Aggregate::new(), Timeline::new());
//! let layers = tracing_subscriber::registry()
//!     .with(figures.clone())
//!     .with(timeline.clone());
//! tracing::subscriber::with_default(layers, || {
//!     // runs of an engine
//! });
//! println!("{}", figures.report());
//! let mut json = Vec::new();
//! timeline.write(&mut json)?;
//! assert_eq!(check(&json)?.sections, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Implementation
//! A worker opens and closes a span where it writes, so what it does must be cheap: numbers are taken
//! as numbers, nothing is formatted, and what is kept lies in one of many parts, so that workers do
//! not wait for each other. Tables and JSON are made when they are asked for.

mod aggregate;
mod check;
mod chrome;
mod fields;
mod histogram;
mod timeline;

pub use aggregate::{Aggregate, AggregateReport, SpanTotals};
pub use check::{TraceError, TraceSummary, check};
pub use histogram::Histogram;
pub use timeline::Timeline;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of what a layer keeps; a worker uses that of its number.
const PARTS: usize = 64;

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    // what is kept is whole at any time: it grows by single calls
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
