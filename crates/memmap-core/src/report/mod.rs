//! What a kernel says about its memory map, said by us.
//!
//! Values first, text by `Display`: a line can be compared without being parsed.

mod figures;
pub mod formulas;
mod lines;
mod zoneinfo;

pub use lines::BootLine;
pub use zoneinfo::{ZoneFigures, ZoneInfoDump};
