//! Text as people hand it over, made into plain lines.
//!
//! Logs come with time stamps in many styles, from a journal, from syslog, quoted in a mail,
//! fenced in a bug report, coloured by a terminal, with carriage returns, NULs and bytes that are
//! no UTF-8. [`Lines`] is the one place that knows all this; readers behind it see the kernel's
//! own words and the line number.

mod file;
mod lines;
mod prefix;
pub(crate) mod scan;

pub(crate) use file::{each_line, open};
pub use lines::{Line, Lines, MAX_LINE};
pub use prefix::strip_prefixes;
