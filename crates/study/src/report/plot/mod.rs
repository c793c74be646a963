//! Plots as SVG.
//!
//! Each takes plain figures and gives an element for the page. None reads a record.

pub(crate) mod axis;
pub(crate) mod canvas;
pub(crate) mod heat;
pub(crate) mod ink;
pub(crate) mod lines;
pub(crate) mod runs;
pub(crate) mod timeline;

pub use canvas::PlotError;
