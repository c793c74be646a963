//! The buddy allocator: free pages in blocks of powers of two.
//!
//! When struct pages are written, the pages that nobody reserved are handed over to the page
//! allocator. [`HandOver`] says, section by section, which blocks they make and what changes in
//! their struct pages; [`Allocator`] keeps the free lists, gives out blocks and takes them back.
//!
//! # Implementation
//! A block never leaves its section. So threads that initialise sections write the heads of the
//! section's blocks on the way, with no lock, and the lists of all sections are joined end to end
//! in pfn order once they are done. That is the order in which one Linux thread would have freed
//! them, since memory is freed upwards and to the tail; list order, and with it the links in the
//! heads, is the same however many threads there were. It was compared with the links in the
//! struct pages of running kernels.

mod allocator;
mod check;
mod contiguous;
mod cut;
mod error;
mod exchange;
mod grow;
mod info;
mod migrate;
mod pageblock;
mod pages;
mod section;
mod zone;
mod zonelist;

pub use allocator::{Allocator, Grow, Request};
pub use check::Violation;
pub use contiguous::is_contiguous;
pub use cut::{Block, blocks};
pub use error::{AllocError, FreeError};
pub use grow::{GrowDeferred, Growth};
pub use info::ZoneCounts;
pub use migrate::{MigrateType, MigrateTypes};
pub use pageblock::{groups_by_mobility, initial_type, initial_types, packed};
pub use pages::StructPages;
pub(crate) use pages::{COUNTS, PageWords};
pub use section::{Edit, HandOver, SectionFree, SectionList};
pub use zone::ListHeads;
pub use zonelist::{NodeDistances, fallback_orders};
