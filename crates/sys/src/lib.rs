//! The few system calls of this workspace, each behind one seam.
//!
//! Everything here is a thin, safe face of Linux: address space ([`Mapping`]), where its pages lie
//! ([`Mapping::bind`], [`Mapping::page_nodes`]), on which CPU a thread runs ([`affinity`]), how much
//! memory we may take ([`available_memory`]), and records that survive a crash ([`append_record`]).
//! A call that the system refuses gives a [`SysError`] with the call, its arguments, the `errno` and
//! what can be done about it.
//!
//! Every call passes through [`seam`], where a test can let the n-th call of a kind fail without
//! disturbing other tests of the same process.
//!
//! # Example
//! ```
//! let mut map = sys::Mapping::reserve(1 << 20)?;
//! map.commit(0..4096)?;
//! map.fault_in(0..4096)?;
//! assert_eq!(map.len(), 1 << 20);
//! # Ok::<(), sys::SysError>(())
//! ```

mod affinity;
mod block;
mod boot;
mod cache;
mod error;
mod file;
mod host;
mod kernel_log;
mod mapping;
mod mapping_count;
mod memory;
mod numa;
pub mod seam;
mod thread;
mod usage;
mod words;

pub use affinity::{affinity, current_cpu, process_time, set_affinity, thread_id};
pub use block::Block;
pub use boot::{mount, power_off};
pub use cache::{Cache, last_level_cache};
pub use error::{Args, Call, Errno, SysError};
pub use file::append_record;
pub use host::{HostDescription, huge_page_size, page_size};
pub use kernel_log::kernel_log;
pub use mapping::{HugePages, Mapping, Populated, touch};
pub use mapping_count::{MappingCount, mapping_count, mapping_count_under};
pub use memory::{AvailableMemory, MemoryBound, available_memory, available_memory_under};
pub use numa::{MemoryPolicy, PageNode};
pub use thread::spawn;
pub use usage::MemoryUse;
