//! The flags word: which node, zone and section a page belongs to, and its page flags.
//!
//! Fields are packed from the top bit downwards, page flags from the bottom up; the widths
//! follow from the configuration, and where a field has no room it lives elsewhere.

mod decode;
mod layout;
mod names;

pub use decode::DecodedFlags;
pub use layout::{Field, FlagsInputs, FlagsLayout};
pub use names::{PageFlag, PageFlagNumbers};
