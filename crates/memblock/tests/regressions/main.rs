//! One file a historical bug.

mod skip_lost_valid_pages;
